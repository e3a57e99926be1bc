// The RPCs beside inference: server, model, repository and shared memory.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/kserve/infer_client.h"

namespace penstock::kserve {
namespace {

using grpc::StatusCode;
using testing::Contains;
using testing::HasSubstr;

template <typename Request>
Request Named(const std::string& name, const std::string& version = "") {
  Request request;
  request.set_name(name);
  request.set_version(version);
  return request;
}

class ModelRpcsTest : public testing::Test {
 protected:
  bool ModelReady(Stub& stub, const std::string& name, const std::string& version = "") {
    const auto [status, response] =
        Call(stub, &Stub::ModelReady, Named<inference::ModelReadyRequest>(name, version));
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.ready();
  }
  bool ServerReady(Stub& stub) {
    return Call(stub, &Stub::ServerReady, inference::ServerReadyRequest()).response.ready();
  }
};

TEST_F(ModelRpcsTest, ReadyIsWhatCanServe) {
  auto options = WithKServe<Serving::Options>();
  options.open = false;
  Serving serving(options);
  const auto stub = NewStub(serving.address());
  EXPECT_TRUE(Call(*stub, &Stub::ServerLive, inference::ServerLiveRequest()).response.live());
  EXPECT_FALSE(ServerReady(*stub));
  EXPECT_FALSE(ModelReady(*stub, "letters"));
  ASSERT_TRUE(serving.Open().ok());
  EXPECT_TRUE(ServerReady(*stub));
  EXPECT_TRUE(ModelReady(*stub, "letters"));
  EXPECT_TRUE(ModelReady(*stub, "letters", "1"));
  EXPECT_FALSE(ModelReady(*stub, "letters", "2"));
  EXPECT_FALSE(ModelReady(*stub, "other"));
  EXPECT_EQ(serving.Health("inference.GRPCInferenceService"), "SERVING");
  serving.executor.Lose(absl::UnavailableError("gone"));
  inference::ModelInferRequest request;
  Inputs(request).Strings("text_input", {"a"});
  ClientCall client(absl::Milliseconds(500));
  inference::ModelInferResponse response;
  EXPECT_FALSE(stub->ModelInfer(&client, request, &response).ok());
  EXPECT_TRUE(Eventually([&] { return !ServerReady(*stub); }));
  EXPECT_FALSE(ModelReady(*stub, "letters"));
}

TEST_F(ModelRpcsTest, DescribesAGenerator) {
  Serving serving(WithKServe<Serving::Options>());
  const auto stub = NewStub(serving.address());
  const auto server =
      Call(*stub, &Stub::ServerMetadata, inference::ServerMetadataRequest()).response;
  EXPECT_EQ(server.name(), "penstock");
  EXPECT_THAT(server.extensions(), Contains("statistics"));
  const auto model =
      Call(*stub, &Stub::ModelMetadata, Named<inference::ModelMetadataRequest>("letters")).response;
  EXPECT_EQ(model.name(), "letters");
  EXPECT_EQ(model.versions(0), "1");
  std::map<std::string, std::string> inputs;
  for (const auto& input : model.inputs()) inputs[input.name()] = input.datatype();
  EXPECT_EQ(inputs["text_input"], "BYTES");
  EXPECT_EQ(inputs["stream"], "BOOL");
  EXPECT_EQ(inputs["temperature"], "FP32");
  EXPECT_EQ(model.outputs(0).name(), "text_output");
  const auto config =
      Call(*stub, &Stub::ModelConfig, Named<inference::ModelConfigRequest>("letters"))
          .response.config();
  EXPECT_TRUE(config.model_transaction_policy().decoupled());
  EXPECT_EQ(config.max_batch_size(), 0);
  EXPECT_EQ(config.input_size(), model.inputs_size());
  for (int i = 0; i < config.input_size(); ++i) {
    EXPECT_EQ(config.input(i).name(), model.inputs(i).name());
    EXPECT_EQ(config.input(i).optional(), i != 0);
    EXPECT_NE(config.input(i).data_type(), inference::TYPE_INVALID) << config.input(i).name();
  }
}

TEST_F(ModelRpcsTest, DescribesAnEncoder) {
  EncodeServing serving(WithKServe<EncodeServing::Options>());
  const auto stub = NewStub(serving.server->address());
  EXPECT_TRUE(ModelReady(*stub, "hashes"));
  const auto model =
      Call(*stub, &Stub::ModelMetadata, Named<inference::ModelMetadataRequest>("hashes")).response;
  EXPECT_EQ(model.inputs(0).name(), "text");
  EXPECT_THAT(model.inputs(0).shape(), testing::ElementsAre(-1, 1));
  EXPECT_EQ(model.outputs(0).name(), "embedding");
  EXPECT_THAT(model.outputs(0).shape(), testing::ElementsAre(-1, 3));
  const auto config =
      Call(*stub, &Stub::ModelConfig, Named<inference::ModelConfigRequest>("hashes"))
          .response.config();
  EXPECT_EQ(config.max_batch_size(), 256);
  EXPECT_FALSE(config.model_transaction_policy().decoupled());
}

TEST_F(ModelRpcsTest, UnknownModelsAreNotFound) {
  Serving serving(WithKServe<Serving::Options>());
  const auto stub = NewStub(serving.address());
  const auto metadata =
      Call(*stub, &Stub::ModelMetadata, Named<inference::ModelMetadataRequest>("x")).status;
  EXPECT_EQ(metadata.error_code(), StatusCode::NOT_FOUND);
  EXPECT_THAT(metadata.error_message(), HasSubstr("\"x\""));
  EXPECT_EQ(Call(*stub, &Stub::ModelConfig, Named<inference::ModelConfigRequest>("letters", "9"))
                .status.error_code(),
            StatusCode::NOT_FOUND);
  EXPECT_EQ(Call(*stub, &Stub::ModelStatistics, Named<inference::ModelStatisticsRequest>("x"))
                .status.error_code(),
            StatusCode::NOT_FOUND);
}

TEST_F(ModelRpcsTest, TheRepositoryIsTheOneModel) {
  Serving serving(WithKServe<Serving::Options>());
  const auto stub = NewStub(serving.address());
  const auto index =
      Call(*stub, &Stub::RepositoryIndex, inference::RepositoryIndexRequest()).response;
  ASSERT_EQ(index.models_size(), 1);
  EXPECT_EQ(index.models(0).name(), "letters");
  EXPECT_EQ(index.models(0).state(), "READY");
  EXPECT_EQ(Call(*stub, &Stub::RepositoryModelLoad, inference::RepositoryModelLoadRequest())
                .status.error_code(),
            StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(Call(*stub, &Stub::RepositoryModelUnload, inference::RepositoryModelUnloadRequest())
                .status.error_code(),
            StatusCode::UNIMPLEMENTED);
}

TEST_F(ModelRpcsTest, ThereIsNoSharedMemoryAndNothingToSetUp) {
  Serving serving(WithKServe<Serving::Options>());
  const auto stub = NewStub(serving.address());
  EXPECT_TRUE(
      Call(*stub, &Stub::SystemSharedMemoryStatus, inference::SystemSharedMemoryStatusRequest())
          .status.ok());
  EXPECT_TRUE(Call(*stub, &Stub::CudaSharedMemoryStatus, inference::CudaSharedMemoryStatusRequest())
                  .status.ok());
  EXPECT_TRUE(Call(*stub, &Stub::SystemSharedMemoryUnregister,
                   inference::SystemSharedMemoryUnregisterRequest())
                  .status.ok());
  EXPECT_TRUE(
      Call(*stub, &Stub::CudaSharedMemoryUnregister, inference::CudaSharedMemoryUnregisterRequest())
          .status.ok());
  for (const auto& status :
       {Call(*stub, &Stub::SystemSharedMemoryRegister,
             inference::SystemSharedMemoryRegisterRequest())
            .status,
        Call(*stub, &Stub::CudaSharedMemoryRegister, inference::CudaSharedMemoryRegisterRequest())
            .status,
        Call(*stub, &Stub::TraceSetting, inference::TraceSettingRequest()).status,
        Call(*stub, &Stub::LogSettings, inference::LogSettingsRequest()).status}) {
    EXPECT_EQ(status.error_code(), StatusCode::UNIMPLEMENTED);
    EXPECT_NE(status.error_message(), "");
  }
}

}  // namespace
}  // namespace penstock::kserve
