#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "proto/penstock/v1/generation.grpc.pb.h"
#include "scheduler/scheduler.h"
#include "server/metrics.h"
#include "server/server.h"
#include "tests/server/byte_tokenizer.h"
#include "tests/server/letter_executor.h"

namespace penstock {

// A whole server on loopback, from gRPC to scheduler, over a LetterExecutor.
class Serving {
 public:
  struct Options {
    LetterExecutor::Options executor;
    SchedulerOptions scheduler;
    ServerOptions server;
    bool open = true;
  };
  explicit Serving(Options options);
  Serving() : Serving(Options()) {}
  ~Serving();

  absl::Status Open() { return server->Open(*context); }
  std::string address() const { return server->address(); }
  std::unique_ptr<v1::Generation::Stub> NewStub(const grpc::ChannelArguments& arguments = {}) const;
  // "SERVING", "NOT_SERVING" or the error.
  std::string Health(const std::string& service = "") const;
  // Value of a metric's line, its labels included; -1 when there is none.
  double Metric(const std::string& name_and_labels) const;

  ByteTokenizer tokenizer;
  LetterExecutor executor;
  std::unique_ptr<Metrics> metrics;
  std::unique_ptr<InferenceServer> server;
  std::unique_ptr<TaskPool> text_pool;
  std::unique_ptr<Scheduler> scheduler;
  std::unique_ptr<ServingContext> context;
  bool drained = false;  // set by a test that has drained itself
};

// Value of a line of Prometheus text, its labels included; -1 when there is none.
double ValueOf(const std::string& text, const std::string& name_and_labels);

// What a call brought.
struct Answer {
  grpc::Status status;
  std::vector<v1::GenerateResponse> messages;
  std::map<uint32_t, std::string> texts;               // by sample
  std::map<uint32_t, std::vector<int32_t>> token_ids;  // by sample
  std::map<uint32_t, v1::GenerateResponse> last;       // with the finish reason

  const std::string& text() { return texts[0]; }
  const v1::GenerateResponse& end() { return last[0]; }
};

v1::GenerateRequest TextRequest(const std::string& prompt, uint32_t max_tokens);
Answer Generate(v1::Generation::Stub& stub, const v1::GenerateRequest& request,
                absl::Duration timeout = absl::Seconds(30));
// Polls until `condition` holds; false after `limit`.
bool Eventually(const std::function<bool()>& condition, absl::Duration limit = absl::Seconds(20));

}  // namespace penstock
