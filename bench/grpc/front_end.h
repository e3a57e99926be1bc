#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "scheduler/scheduler.h"
#include "server/metrics.h"
#include "server/server.h"
#include "server/task_pool.h"
#include "server/text/tokenizer.h"
#include "shard/api/executor.h"

namespace penstock {

// What `penstock serve` puts around an engine, composed as there: scheduler, text pool, metrics,
// gRPC. Serves until it is destroyed.
class FrontEnd {
 public:
  // Borrows `executor` and `tokenizer`. Ready to be called when it returns.
  static absl::StatusOr<std::unique_ptr<FrontEnd>> Open(Executor& executor,
                                                        const Tokenizer& tokenizer,
                                                        const SchedulerOptions& options,
                                                        const std::string& listen);
  ~FrontEnd();

  std::string address() const { return server_->address(); }
  // The way to the engine that does not lead through gRPC.
  Generator& generator() { return *scheduler_; }

 private:
  FrontEnd() = default;

  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<InferenceServer> server_;
  std::unique_ptr<TaskPool> text_pool_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<ServingContext> context_;
};

}  // namespace penstock
