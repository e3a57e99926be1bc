#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "cli/bench/call_ends.h"
#include "cli/bench/run_clock.h"
#include "cli/bench/workload.h"

namespace penstock {

// What the calls of a run share.
struct CallContext {
  RunClock clock;
  std::shared_ptr<CallEnds> ends;
};

// One request on its way.
class Call {
 public:
  virtual ~Call() = default;
  // Returns at once. The call keeps itself alive until it has ended, in CallEnds.
  virtual void Start() = 0;
  // Ends the call soon, with CANCELLED; from any thread, at any time after Start().
  virtual void Cancel() = 0;
};

// A server and the protocol it is spoken to in. Thread-safe.
class Target {
 public:
  struct Options {
    std::string address = "127.0.0.1:50051";
    std::string model;
    bool embed = false;       // instead of generating
    int32_t connections = 1;  // calls take turns on them
    std::optional<absl::Duration> timeout;
    float temperature = 0;
    std::optional<int32_t> priority;
    bool ignore_eos = true;
    bool unary = false;        // KServe: the whole answer in one message
    bool count_tokens = true;  // KServe: ask for the number of tokens in each message
  };

  virtual ~Target() = default;
  // `intended`: when latency starts; nothing: when the call does.
  virtual std::shared_ptr<Call> Prepare(const PlannedRequest& request,
                                        std::optional<absl::Duration> intended,
                                        const CallContext& context) = 0;
};

// penstock.v1.Generation
std::unique_ptr<Target> MakeGenerationTarget(const Target::Options& options);
// penstock.v1.Encoding
std::unique_ptr<Target> MakeEncodingTarget(const Target::Options& options);
// inference.GRPCInferenceService, with the tensors of Triton's vLLM backend.
std::unique_ptr<Target> MakeKserveTarget(const Target::Options& options);

}  // namespace penstock
