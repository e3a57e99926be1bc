#pragma once

#include <grpcpp/health_check_service_interface.h>

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "scheduler/observer.h"
#include "shard/base/mutex.h"

namespace penstock {

// Whether the scheduler can serve: not while its executor is being restarted or lost, nor when
// there has been work and no step has finished for longer than `stall_limit`.
bool CanServe(const SchedulerState& state, absl::Time now, absl::Duration stall_limit);

// Keeps grpc.health.v1 truthful from a thread of its own, so that health never waits for inference.
// Names: "", "readiness" and those of services serve when requests can be served; "liveness" always
// does.
class HealthReporter {
 public:
  using Look = absl::AnyInvocable<SchedulerState()>;  // quick; called on the reporter's thread

  // Reports NOT_SERVING until Serve(). `service` is borrowed.
  HealthReporter(grpc::HealthCheckServiceInterface* service, absl::Duration stall_limit,
                 std::vector<std::string> services);
  ~HealthReporter();

  void Serve(Look look) ABSL_LOCKS_EXCLUDED(mutex_);
  // NOT_SERVING for good; `look` is not called any more once this returns.
  void Drain() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Loop() ABSL_LOCKS_EXCLUDED(mutex_);
  void LookAndReport() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Report(bool serving) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  grpc::HealthCheckServiceInterface* const service_;
  const absl::Duration stall_limit_;
  std::vector<std::string> names_;  // fixed once made
  Mutex mutex_;
  std::optional<Look> look_ ABSL_GUARDED_BY(mutex_);
  std::optional<bool> reported_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace penstock
