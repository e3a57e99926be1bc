// What a gateway asks before it sends anything: health, model, loads and the tokenizer's files.
#include <zip.h>

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/vllm/vllm_client.h"

namespace penstock::vllm {
namespace {

namespace fs = std::filesystem;
using grpc::StatusCode;
using testing::ElementsAre;

Files Unzip(const std::string& bytes) {
  Files files;
  zip_error_t error;
  zip_error_init(&error);
  zip_t* archive = zip_open_from_source(
      zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error), ZIP_RDONLY, &error);
  if (archive == nullptr) return files;
  for (zip_int64_t i = 0; i < zip_get_num_entries(archive, 0); ++i) {
    zip_stat_t entry;
    zip_stat_index(archive, static_cast<zip_uint64_t>(i), 0, &entry);
    std::string& content = files[entry.name];
    content.resize(entry.size);
    zip_file_t* file = zip_fopen_index(archive, static_cast<zip_uint64_t>(i), 0);
    EXPECT_EQ(zip_fread(file, content.data(), content.size()),
              static_cast<zip_int64_t>(entry.size));
    zip_fclose(file);
  }
  zip_discard(archive);
  return files;
}

TEST(TokenizerArchiveTest, ZipsAreReadBackAndAreTheSameForTheSameFiles) {
  const Files files = {{"a.json", "{}"}, {"b.model", std::string(300'000, '\0') + "x"}, {"c", ""}};
  const auto zip = MakeZip(files);
  ASSERT_TRUE(zip.ok()) << zip.status();
  EXPECT_LT(zip->size(), 10'000u);
  EXPECT_EQ(Unzip(*zip), files);
  EXPECT_EQ(*MakeZip(files), *zip);
  EXPECT_EQ(Sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(TokenizerArchiveTest, ConfigOfGguf) {
  const nlohmann::json metadata = {{"tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>"}},
                                   {"tokenizer.ggml.bos_token_id", 1u},
                                   {"tokenizer.ggml.eos_token_id", 2u},
                                   {"tokenizer.ggml.unknown_token_id", 0u},
                                   {"tokenizer.ggml.padding_token_id", 99u},
                                   {"tokenizer.ggml.add_bos_token", true},
                                   {"tokenizer.chat_template", "{{ x }}"}};
  const nlohmann::json config = TokenizerConfigFromGguf(metadata);
  EXPECT_EQ(config["bos_token"], "<s>");
  EXPECT_EQ(config["eos_token"], "</s>");
  EXPECT_EQ(config["unk_token"], "<unk>");
  EXPECT_FALSE(config.contains("pad_token"));
  EXPECT_EQ(config["add_bos_token"], true);
  EXPECT_EQ(config["chat_template"], "{{ x }}");
}

class VllmInfoTest : public testing::Test {
 protected:
  VllmInfoTest() {
    const fs::path model = fs::path(PENSTOCK_TEST_DATA) / "models" / "llama-mha";
    fs::remove_all(folder_);  // of a run that crashed
    fs::create_directory(folder_);
    for (const fs::directory_entry& entry : fs::directory_iterator(model))
      fs::copy(entry.path(), folder_ / entry.path().filename());
    std::string vocab;  // several chunks, even deflated
    for (uint32_t i = 0, x = 1; i < 300'000; ++i, x = x * 1664525 + 1013904223)
      vocab += static_cast<char>('!' + (x >> 24) % 64);
    std::ofstream(folder_ / "tokenizer.json") << vocab;
    std::ofstream(folder_ / "generation_config.json")
        << R"({"temperature": 0.5, "top_k": 7, "do_sample": true})";
    auto options = WithVllm<Serving::Options>();
    options.open = false;
    serving_ = std::make_unique<Serving>(options);
    serving_->context->model.path = folder_.string();
    stub_ = NewStub(serving_->address());
  }
  ~VllmInfoTest() override { fs::remove_all(folder_); }

  const fs::path folder_ =
      fs::path(testing::TempDir()) /
      (std::string("vllm_info_") + testing::UnitTest::GetInstance()->current_test_info()->name());
  std::unique_ptr<Serving> serving_;
  std::unique_ptr<Stub> stub_;
};

TEST_F(VllmInfoTest, HealthIsWhetherItServes) {
  EXPECT_FALSE(Call(*stub_, &Stub::HealthCheck).response.healthy());
  EXPECT_EQ(Call(*stub_, &Stub::GetModelInfo).status.error_code(), StatusCode::UNAVAILABLE);
  ASSERT_TRUE(serving_->Open().ok());
  EXPECT_TRUE(Call(*stub_, &Stub::HealthCheck).response.healthy());
  EXPECT_EQ(serving_->Health("vllm.grpc.engine.VllmEngine"), "SERVING");
}

TEST_F(VllmInfoTest, ModelIsWhatItsFilesSay) {
  ASSERT_TRUE(serving_->Open().ok());
  const auto [status, info] = Call(*stub_, &Stub::GetModelInfo);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(info.model_path(), folder_.string());
  EXPECT_EQ(info.served_model_name(), "letters");
  EXPECT_TRUE(info.is_generation());
  EXPECT_EQ(info.max_context_length(), 128u);
  EXPECT_EQ(info.model_type(), "llama");
  EXPECT_THAT(info.architectures(), ElementsAre("LlamaForCausalLM"));
  EXPECT_THAT(info.eos_token_ids(), ElementsAre(ByteTokenizer::kEos));
  const auto defaults = nlohmann::json::parse(info.default_sampling_params_json());
  EXPECT_EQ(defaults, (nlohmann::json{{"temperature", 0.5}, {"top_k", 7}}));
}

TEST_F(VllmInfoTest, FilesThatMakeNoSenseAreNoModel) {
  std::ofstream(folder_ / "config.json")
      << R"({"model_type": 7, "architectures": [1, "A"], "pad_token_id": "x"})";
  std::ofstream(folder_ / "generation_config.json") << R"({"temperature": "warm"} {)";
  ASSERT_TRUE(serving_->Open().ok());
  const auto [status, info] = Call(*stub_, &Stub::GetModelInfo);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(info.model_type(), "");
  EXPECT_THAT(info.architectures(), ElementsAre("A"));
  EXPECT_EQ(info.pad_token_id(), 0);
  EXPECT_EQ(info.default_sampling_params_json(), "");
}

TEST_F(VllmInfoTest, LoadsAndServer) {
  ASSERT_TRUE(serving_->Open().ok());
  const auto loads = Call(*stub_, &Stub::GetLoads).response;
  ASSERT_EQ(loads.loads_size(), 1);
  EXPECT_EQ(loads.loads(0).max_total_num_tokens(), 64 * 16);
  EXPECT_EQ(loads.loads(0).max_running_requests(), 8);
  const auto server = Call(*stub_, &Stub::GetServerInfo).response;
  EXPECT_EQ(server.active_requests(), 0u);
  EXPECT_GT(server.uptime_seconds(), 0);
  EXPECT_EQ(Call(*stub_, &Stub::FlushCache).status.error_code(), StatusCode::UNIMPLEMENTED);
}

TEST_F(VllmInfoTest, TheTokenizersFilesComeInParts) {
  ASSERT_TRUE(serving_->Open().ok());
  ClientCall client;
  const auto stream = stub_->GetTokenizer(&client, {});
  smg::grpc::common::GetTokenizerChunk chunk;
  std::string zip, sha256;
  int chunks = 0;
  for (; stream->Read(&chunk); ++chunks) {
    EXPECT_EQ(sha256, "");  // only the last tells it
    zip += chunk.data();
    sha256 = chunk.sha256();
  }
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_GT(chunks, 2);
  EXPECT_EQ(sha256, Sha256(zip));
  const Files files = Unzip(zip);
  for (const char* name : {"config.json", "generation_config.json", "tokenizer.json"}) {
    std::ifstream file(folder_ / name, std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(file), {}};
    ASSERT_TRUE(files.count(name)) << name;
    EXPECT_EQ(files.at(name), content);
  }
  EXPECT_EQ(files.count("model.safetensors"), 0u);
}

TEST_F(VllmInfoTest, WithoutFilesTheErrorNamesTheModel) {
  serving_->context->model.path = "/no/such/model";
  ASSERT_TRUE(serving_->Open().ok());
  const auto [status, info] = Call(*stub_, &Stub::GetModelInfo);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.error_message(), testing::HasSubstr("/no/such/model"));
  EXPECT_TRUE(Call(*stub_, &Stub::HealthCheck).response.healthy());
}

}  // namespace
}  // namespace penstock::vllm
