#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/client_callback.h>
#include <grpcpp/impl/codegen/rpc_method.h>

#include <string>

#include "gtest/gtest.h"
#include "tests/server/serving_fixture.h"

namespace penstock {
namespace {

// Calls Generate with bytes that need not be a message.
grpc::Status GenerateRaw(const std::string& address, const std::string& bytes) {
  const auto channel = grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  const grpc::internal::RpcMethod method("/penstock.v1.Generation/Generate",
                                         grpc::internal::RpcMethod::SERVER_STREAMING, channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  const std::unique_ptr<grpc::ClientReader<grpc::ByteBuffer>> reader(
      grpc::internal::ClientReaderFactory<grpc::ByteBuffer>::Create(channel.get(), method, &context,
                                                                    request));
  grpc::ByteBuffer response;
  while (reader->Read(&response)) {
  }
  return reader->Finish();
}

TEST(MalformedMessageTest, IsAnInvalidArgumentThatSaysSoAndCounts) {
  Serving serving;
  const std::vector<std::string> messages = {
      "\xff\xff\xff",                          // no protocol buffer at all
      "\x12\x05\x61",                          // a text that is cut short
      "\x12\x02\xff\xfe",                      // text is not UTF-8
      "\x12\x01\x61\x2a\x04\x1a\x02\xc3\x28",  // stopping.stop is not UTF-8
  };
  for (const std::string& bytes : messages) {
    const grpc::Status status = GenerateRaw(serving.address(), bytes);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    EXPECT_NE(status.error_message().find("GenerateRequest"), std::string::npos);
  }
  EXPECT_TRUE(Eventually([&] {
    return serving.Metric(
               R"(penstock_requests_total{code="INVALID_ARGUMENT",method="Generate",model="letters"})") ==
           static_cast<double>(messages.size());
  }));
  EXPECT_TRUE(Generate(*serving.NewStub(), TextRequest("a", 1)).status.ok());
}

}  // namespace
}  // namespace penstock
