#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/api/step.h"

namespace penstock {

// What the model and the memory plan allow. Fixed once loaded; the one source of truth for limits.
struct ExecutorInfo {
  int32_t stages = 1;
  int32_t max_in_flight = 1;  // steps that may be launched and not yet waited for: stages + 1
  int32_t kv_blocks = 0;
  int32_t kv_block_size = 0;  // tokens
  int32_t max_step_tokens = 0;
  int32_t max_sequences = 0;  // slots, and sequences in one step
  int32_t max_context = 0;    // tokens of one sequence, prompt and output
  int32_t vocab = 0;          // ids below it may be fed and drawn
  // Of a one-shot model: floats of each sequence's result (an embedding, or a score per class). 0:
  // the model generates. A one-shot model has no KV cache, and max_step_tokens >= max_context.
  int32_t output_width = 0;
  int32_t token_types = 0;  // of a one-shot model: segment ids below it may be fed; 0: it has none
  // How much dearer a row gets with each token of context that it attends to, in rows: attention's
  // arithmetic over that of everything else in a layer. For chunks of equal time.
  float context_cost = 0;
};

// Time since creation, in seconds. bubble = active - busy; idle = elapsed - active.
struct StageStats {
  double busy = 0;      // computing
  double transfer = 0;  // moving activations to or from a neighbour (waiting for one excluded)
};
// A rank that runs in a process of its own.
struct RankStats {
  bool up = true;
  int64_t restarts = 0;        // of its process, or of the connection to it
  int64_t resident_bytes = 0;  // of its process
};
struct PipelineStats {
  double elapsed = 0;
  double active = 0;  // with at least one step in flight
  std::vector<StageStats> stages{};
  std::vector<RankStats> ranks{};  // empty: they are threads of this process
};

// Runs forward steps. A Shard runs one rank, a ShardGroup several, a remote one another host's;
// callers cannot tell them apart. Launch and Wait belong to one thread.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual const ExecutorInfo& info() const = 0;

  // Queues a step; never blocks. At most info().max_in_flight may be outstanding. Errors come out
  // of Wait().
  virtual void Launch(StepBatch batch) = 0;

  // The oldest outstanding step's result. DeadlineExceeded, naming step, rank and operation, when
  // it takes longer than the step timeout. After an error every later Wait() fails too, until
  // Restart().
  virtual absl::StatusOr<StepResult> Wait() = 0;

  // Ends what is in progress with `why`; everything then fails until Restart(). Thread-safe,
  // idempotent.
  virtual void Abort(absl::Status why) = 0;

  // After an error or Abort: forgets outstanding steps and the KV cache, keeps the weights, begins
  // a new epoch with step 0. An error means the executor is lost for good or should be tried later.
  virtual absl::Status Restart() = 0;

  // Why everything fails until Restart(); OK while nothing is known to be wrong. Tells of a lost
  // rank even when no step is outstanding. Thread-safe.
  virtual absl::Status status() const { return absl::OkStatus(); }

  // Of the next step to launch.
  virtual uint64_t epoch() const = 0;

  // Thread-safe snapshot.
  virtual PipelineStats Stats() const = 0;
};

}  // namespace penstock
