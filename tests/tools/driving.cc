#include "tests/tools/driving.h"

#include <memory>
#include <utility>

#include "scheduler/token_stream.h"
#include "shard/base/status_macros.h"

namespace penstock {

absl::StatusOr<BatchResult> RunAll(const SchedulerOptions& options, Executor& executor,
                                   const std::vector<GenerateRequest>& requests) {
  CountingObserver observer;
  Scheduler scheduler(options, executor, observer);
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (GenerateRequest request : requests) {
    request.arrival = absl::Now();
    streams.push_back(std::make_shared<TokenStream>([] {}));
    RETURN_IF_ERROR(scheduler.Submit(std::move(request), streams.back()));
  }
  while (scheduler.Step()) {
  }

  BatchResult result;
  for (const auto& stream : streams) {
    const TokenStream::Chunk chunk = stream->Read();
    RETURN_IF_ERROR(chunk.status);
    if (!chunk.closed) return absl::InternalError("the scheduler stopped with a stream still open");
    std::vector<int32_t>& tokens = result.tokens.emplace_back();
    for (const SampledToken& token : chunk.tokens) tokens.push_back(token.token);
  }
  result.preemptions = observer.preemptions();
  return result;
}

}  // namespace penstock
