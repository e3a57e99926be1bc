#include "bench/grpc/front_end.h"

#include "absl/memory/memory.h"
#include "absl/time/clock.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

constexpr int kTextThreads = 2;  // as the server has

}  // namespace

absl::StatusOr<std::unique_ptr<FrontEnd>> FrontEnd::Open(Executor& executor,
                                                         const Tokenizer& tokenizer,
                                                         const SchedulerOptions& options,
                                                         const std::string& listen) {
  auto front = absl::WrapUnique(new FrontEnd);
  MetricsOptions metrics;
  metrics.listen = "off";
  metrics.model = "bench";
  ASSIGN_OR_RETURN(front->metrics_, Metrics::Create(metrics));
  ServerOptions server;
  server.listen = listen;
  ASSIGN_OR_RETURN(front->server_, InferenceServer::Start(server, *front->metrics_));
  front->text_pool_ = std::make_unique<TaskPool>(kTextThreads);
  front->metrics_->WatchStages(&executor);
  front->scheduler_ = std::make_unique<Scheduler>(
      options, executor, front->metrics_->AddReplica(executor.info().stages));
  front->context_ = std::make_unique<ServingContext>(
      ServingContext{{"bench", tokenizer, executor.info(), /*eos_tokens=*/{}},
                     front->scheduler_.get(),
                     *front->text_pool_});
  front->scheduler_->Start();
  RETURN_IF_ERROR(front->server_->Open(*front->context_));
  return front;
}

FrontEnd::~FrontEnd() {
  if (context_ != nullptr) {
    server_->RequestStop();
    server_->RequestStop();
    server_->Drain();
    scheduler_->Stop(absl::Now());
  }
  if (metrics_ != nullptr) metrics_->WatchStages(nullptr);
  context_.reset();
  scheduler_.reset();
  text_pool_.reset();
  server_.reset();
}

}  // namespace penstock
