#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "proto/penstock/v1/encoding.grpc.pb.h"
#include "scheduler/request_batcher.h"
#include "server/metrics.h"
#include "server/server.h"
#include "tests/server/byte_tokenizer.h"
#include "tests/server/serving_fixture.h"
#include "tests/server/unary_call.h"
#include "tests/support/fake_encode_executor.h"

namespace penstock {

// A whole server on loopback, from gRPC to batcher, over a FakeEncodeExecutor.
class EncodeServing {
 public:
  struct Options {
    EncoderSpec encoder;
    BatcherOptions batcher;
    ServerOptions server;
    bool open = true;
  };
  static ExecutorInfo Info(const EncoderSpec& encoder) {
    ExecutorInfo info = SmallEncoderInfo();
    info.stages = 1;
    info.max_in_flight = 2;
    info.vocab = 300;  // padded beyond the tokenizer's
    info.token_types = 2;
    info.output_width = encoder.output_width(3);
    return info;
  }

  explicit EncodeServing(Options options) : executor(Info(options.encoder)) {
    metrics = *Metrics::Create({.listen = "off", .model = "hashes"});
    options.server.listen = "127.0.0.1:0";
    server = *InferenceServer::Start(options.server, *metrics);
    text_pool = std::make_unique<TaskPool>(2);
    batcher = std::make_unique<RequestBatcher>(options.batcher, executor, metrics->AddReplica(1));
    context = std::make_unique<ServingContext>(
        ServingContext{{"hashes", tokenizer, executor.info(), {}, {}, options.encoder},
                       nullptr,
                       *text_pool,
                       batcher.get()});
    batcher->Start();
    if (!options.open) return;
    EXPECT_TRUE(server->Open(*context).ok());
    // Nothing of the warm-up is to be taken for what a test does.
    EXPECT_TRUE(Eventually([this] { return !batcher->state().has_work(); }));
  }
  EncodeServing() : EncodeServing(Options()) {}
  ~EncodeServing() {
    executor.Release();
    server->RequestStop();
    server->RequestStop();
    server->Drain();
    batcher->Stop(absl::Now());
    context.reset();
    batcher.reset();
    text_pool.reset();
    server.reset();
  }

  std::shared_ptr<grpc::Channel> NewChannel() const {
    return grpc::CreateChannel(server->address(), grpc::InsecureChannelCredentials());
  }

  ByteTokenizer tokenizer;
  FakeEncodeExecutor executor;
  std::unique_ptr<Metrics> metrics;
  std::unique_ptr<InferenceServer> server;
  std::unique_ptr<TaskPool> text_pool;
  std::unique_ptr<RequestBatcher> batcher;
  std::unique_ptr<ServingContext> context;
};

inline v1::EmbedRequest EmbedTexts(const std::vector<std::string>& texts) {
  v1::EmbedRequest request;
  for (const std::string& text : texts) request.add_inputs()->set_text(text);
  return request;
}

inline EncoderSpec Classifier(std::vector<std::string> labels, bool single_label = true) {
  EncoderSpec encoder;
  encoder.pooling = Pooling::kClassify;
  encoder.labels = std::move(labels);
  encoder.single_label = single_label;
  return encoder;
}

}  // namespace penstock
