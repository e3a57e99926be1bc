#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/kserve/inference.grpc.pb.h"
#include "proto/penstock/v1/encoding.grpc.pb.h"
#include "proto/penstock/v1/generation.grpc.pb.h"
#include "shard/base/mutex.h"

namespace penstock {

// A gRPC server on a free port of loopback with one service, which is borrowed.
class FakeServer {
 public:
  explicit FakeServer(grpc::Service& service);
  ~FakeServer() { Die(); }
  std::string address() const { return address_; }
  // At once, cutting off what is running.
  void Die();

 private:
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

// Answers max_tokens tokens, one a message, `gap` apart.
class FakeGeneration final : public v1::Generation::Service {
 public:
  absl::Duration gap;
  grpc::Status failure;  // instead of an answer
  bool without_finish_reason = false;

  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateResponse>* writer) override;
  std::vector<v1::GenerateRequest> requests() ABSL_LOCKS_EXCLUDED(mutex_);
  int most_running() const { return most_running_.load(); }

 private:
  Mutex mutex_;
  std::vector<v1::GenerateRequest> requests_ ABSL_GUARDED_BY(mutex_);
  std::atomic<int> running_{0}, most_running_{0};
};

// Embeds nothing; counts each input as its ids and two more.
class FakeEncoding final : public v1::Encoding::Service {
 public:
  grpc::Status Embed(grpc::ServerContext* context, const v1::EmbedRequest* request,
                     v1::EmbedResponse* response) override;
};

// A decoupled language model in Triton's manner: max_tokens messages with a word each.
class FakeKserve final : public inference::GRPCInferenceService::Service {
 public:
  bool tells_counts = true;     // num_output_tokens beside text_output
  std::string error_in_stream;  // not empty: the first message

  grpc::Status ModelInfer(grpc::ServerContext* context, const inference::ModelInferRequest* request,
                          inference::ModelInferResponse* response) override;
  using Stream =
      grpc::ServerReaderWriter<inference::ModelStreamInferResponse, inference::ModelInferRequest>;
  grpc::Status ModelStreamInfer(grpc::ServerContext* context, Stream* stream) override;
  std::vector<inference::ModelInferRequest> requests() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Remember(const inference::ModelInferRequest& request) ABSL_LOCKS_EXCLUDED(mutex_);
  void Fill(const std::string& text, uint32_t tokens,
            inference::ModelInferResponse* response) const;

  Mutex mutex_;
  std::vector<inference::ModelInferRequest> requests_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace penstock
