#pragma once

#include <grpcpp/health_check_service_interface.h>

#include <cstdint>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "shard/base/mutex.h"

namespace penstock {

// A look at whether the work moves.
struct ServingProgress {
  bool healthy = true;   // the executor can run steps
  bool has_work = false;
  int64_t steps = 0;     // finished so far
};

// Decides from looks at the progress whether the server can serve: not while unhealthy, nor when
// there has been work and no step has finished for `limit`. Pure; the caller brings the clock.
class StallDetector {
 public:
  explicit StallDetector(absl::Duration limit) : limit_(limit) {}
  bool CanServe(const ServingProgress& progress, absl::Time now);

 private:
  const absl::Duration limit_;
  int64_t steps_ = -1;
  absl::Time moved_ = absl::InfinitePast();
};

// Keeps grpc.health.v1 truthful from a thread of its own, so that health never waits for inference.
// Names: "" and "penstock.v1.Generation" and "readiness" serve when requests can be served;
// "liveness" always does.
class HealthReporter {
 public:
  using Look = absl::AnyInvocable<ServingProgress()>;  // quick; called on the reporter's thread

  // Reports NOT_SERVING until Serve(). `service` is borrowed.
  HealthReporter(grpc::HealthCheckServiceInterface* service, absl::Duration stall_limit);
  ~HealthReporter();

  void Serve(Look look) ABSL_LOCKS_EXCLUDED(mutex_);
  // NOT_SERVING for good; `look` is not called any more once this returns.
  void Drain() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);
  void Report(bool serving) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  grpc::HealthCheckServiceInterface* const service_;
  Mutex mutex_;
  StallDetector detector_ ABSL_GUARDED_BY(mutex_);
  std::optional<Look> look_ ABSL_GUARDED_BY(mutex_);
  std::optional<bool> reported_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace penstock
