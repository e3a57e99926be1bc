// What the scheduler costs per step, with no executor behind it: whole turns (plan, build, launch,
// wait, commit, tokens to streams, state published).

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "bench/support/null_executor.h"
#include "bench/support/null_observer.h"
#include "scheduler/scheduler.h"

namespace penstock {
namespace {

ExecutorInfo Info(int32_t stages) {
  return {.stages = stages,
          .max_in_flight = stages + 1,
          .kv_blocks = 1 << 18,
          .kv_block_size = 16,
          .max_step_tokens = 4096,
          .max_sequences = 256,
          .max_context = 16384,
          .vocab = 50000};
}

// A prompt that shares nothing with those of other keys.
GenerateRequest MakeRequest(int32_t key, int32_t prompt, int32_t output) {
  GenerateRequest request;
  request.prompt.assign(static_cast<size_t>(prompt), key);
  request.max_tokens = output;
  return request;
}

// Whole turns of steady decode (plan, build, launch, wait, commit, publish), with `waiting` more in
// the queue: microseconds per turn, the median of several runs.
double TimeTurns(int32_t stages, int32_t sequences, int32_t context, int32_t waiting) {
  constexpr int kRuns = 5, kTurns = 400, kOutput = 4096;
  NullExecutor executor(Info(stages));
  NullObserver observer;
  SchedulerOptions options;
  options.max_queued = 1 << 20;
  options.max_sequences = sequences;
  Scheduler scheduler(options, executor, observer);
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (int32_t i = 0; i < sequences + waiting; ++i) {
    streams.push_back(std::make_shared<TokenStream>(nullptr));
    if (!scheduler.Submit(MakeRequest(i, context, kOutput), streams.back()).ok()) std::abort();
  }
  const auto read_all = [&] {
    for (int32_t i = 0; i < sequences; ++i) streams[static_cast<size_t>(i)]->Read();
  };
  const int64_t prompts = int64_t{sequences} * context / Info(stages).max_step_tokens;
  for (int64_t turn = 0; turn < 2 * prompts + 50; ++turn) scheduler.Step();
  std::vector<double> times;
  for (int run = 0; run < kRuns; ++run) {
    read_all();
    const absl::Time begin = absl::Now();
    for (int turn = 0; turn < kTurns; ++turn) scheduler.Step();
    times.push_back(absl::ToDoubleMicroseconds(absl::Now() - begin) / kTurns);
  }
  std::sort(times.begin(), times.end());
  return times[kRuns / 2];
}

void Run() {
  for (int32_t stages : {1, 2, 4}) {
    for (const auto& [sequences, context] : {std::pair(16, 512), std::pair(256, 4096)}) {
      const double steady = TimeTurns(stages, sequences, context, 0);
      std::printf("stages %d, %3d sequences at a context of %4d: turn %6.1f us, ", stages,
                  sequences, context, steady);
      std::printf("with 5000 waiting %6.1f us\n", TimeTurns(stages, sequences, context, 5000));
    }
  }
}

}  // namespace
}  // namespace penstock

int main() { penstock::Run(); }
