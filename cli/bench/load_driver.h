#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "absl/time/time.h"
#include "cli/bench/call_ends.h"
#include "cli/bench/request_record.h"
#include "cli/bench/run_clock.h"
#include "cli/bench/start_times.h"
#include "cli/bench/target.h"
#include "cli/bench/workload.h"

namespace penstock {

// How a run stands.
struct LoadProgress {
  absl::Duration elapsed;
  int64_t started = 0, running = 0, succeeded = 0, failed = 0;
  int64_t output_tokens = 0;  // received
};

// Sends a workload to a target. Runs belong to one thread, which sleeps until the next request is
// due; what arrives is recorded by gRPC's threads.
class LoadDriver {
 public:
  struct Limits {
    int64_t first_index = 0;
    int64_t requests = 0;                                // no more than these are started
    absl::Duration duration = absl::InfiniteDuration();  // and none after this time
  };
  using OnProgress = std::function<void(const LoadProgress&)>;

  // Both are borrowed. `on_progress` is called by runs, every `progress_period`.
  LoadDriver(Target& target, const Workload& workload, OnProgress on_progress,
             absl::Duration progress_period);

  // Starts requests and waits for all of them to end. Records are in the order of their ends.
  std::vector<RequestRecord> Run(StartTimes& times, const Limits& limits, const RunClock& clock);
  // From any thread: the present and all later runs start nothing more, what is running is
  // cancelled, and its records are marked `cut_off`.
  void Stop() { ends_->Stop(); }

 private:
  struct CurrentRun;

  // The intended start of the next request, when it has come; nothing when none is to be started.
  std::optional<absl::Duration> AwaitStart(CurrentRun& run);
  void StartOne(CurrentRun& run, absl::Duration intended);
  // Until `until`, the end of a call, or Stop().
  void Sleep(CurrentRun& run, absl::Duration until);
  void TakeEnded(CurrentRun& run, absl::Duration wait);
  void ShowProgress(CurrentRun& run);

  Target& target_;
  const Workload& workload_;
  const OnProgress on_progress_;
  const absl::Duration progress_period_;
  const std::shared_ptr<CallEnds> ends_ = std::make_shared<CallEnds>();
};

}  // namespace penstock
