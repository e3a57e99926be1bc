// What the scheduler costs per step, with no executor behind it: planning and batch building alone,
// and whole turns (plan, build, launch, commit, tokens to streams).

#include <cstdio>
#include <deque>
#include <memory>
#include <vector>

#include "absl/time/clock.h"
#include "scheduler/batch_builder.h"
#include "scheduler/scheduler.h"

namespace penstock {
namespace {

ExecutorInfo Info(int32_t stages) {
  return {.stages = stages,
          .max_in_flight = stages + 1,
          .kv_blocks = 65536,
          .kv_block_size = 16,
          .max_step_tokens = 4096,
          .max_sequences = 256,
          .max_context = 4096,
          .vocab = 50000};
}

// Answers every step at once.
class NullExecutor : public Executor {
 public:
  explicit NullExecutor(const ExecutorInfo& info) : info_(info) {}
  const ExecutorInfo& info() const override { return info_; }
  void Launch(StepBatch batch) override { steps_.emplace_back(batch.step, batch.samples.size()); }
  absl::StatusOr<StepResult> Wait() override {
    StepResult result;
    result.step = steps_.front().first;
    result.samples.resize(steps_.front().second);
    steps_.pop_front();
    return result;
  }
  void Abort(absl::Status) override {}
  absl::Status Restart() override { return absl::OkStatus(); }
  uint64_t epoch() const override { return 1; }
  PipelineStats Stats() const override { return {}; }

 private:
  ExecutorInfo info_;
  std::deque<std::pair<int64_t, size_t>> steps_;
};

class NullObserver : public SchedulerObserver {
 public:
  void OnStep(const StepReport&) override {}
  void OnToken(absl::Duration) override {}
  void OnFinish(const FinishReport&) override {}
  void OnPreempt() override {}
  void OnState(const SchedulerState&) override {}
};

GenerateRequest MakeRequest(int32_t prompt, int32_t output) {
  GenerateRequest request;
  request.prompt.assign(static_cast<size_t>(prompt), 7);
  request.max_tokens = output;
  return request;
}

// Planning and batch building of steady decode: microseconds per step.
double TimePlanning(int32_t stages, int32_t sequences, int32_t context) {
  const ExecutorInfo info = Info(stages);
  SequenceTable table(info.kv_blocks, info.kv_block_size, info.max_sequences);
  StepPlanner planner({.stages = stages,
                       .max_in_flight = info.max_in_flight,
                       .max_step_tokens = info.max_step_tokens,
                       .prefill_chunk = 256});
  for (int32_t i = 0; i < sequences; ++i) {
    auto sequence = std::make_unique<Sequence>(MakeRequest(context, 2048),
                                               std::make_shared<TokenStream>(nullptr));
    sequence->order = static_cast<uint64_t>(i);
    table.Enqueue(std::move(sequence));
    table.StartNext()->computed = context - 1;
  }
  constexpr int kSteps = 1000;
  absl::Duration spent;
  int64_t tokens = 0;
  for (int step = 0; step < kSteps; ++step) {
    const absl::Time begin = absl::Now();
    const StepPlan plan = planner.Plan(table, {});
    const StepBatch batch = BuildBatch(plan, info.kv_block_size, step, 1);
    spent += absl::Now() - begin;
    tokens += static_cast<int64_t>(batch.tokens.size());
    for (const PlannedSequence& planned : plan.run) {
      ++planned.sequence->computed;
      planned.sequence->slot_assigned = true;
      planned.sequence->tokens.push_back(7);
    }
  }
  std::printf("  %4lld tokens a step", static_cast<long long>(tokens / kSteps));
  return absl::ToDoubleMicroseconds(spent) / kSteps;
}

// Whole turns, with `waiting` more in the queue: microseconds per turn.
double TimeTurns(int32_t stages, int32_t sequences, int32_t waiting) {
  NullExecutor executor(Info(stages));
  NullObserver observer;
  Scheduler scheduler({.max_queued = 1 << 20, .max_sequences = sequences}, executor, observer);
  for (int32_t i = 0; i < sequences + waiting; ++i)
    if (!scheduler.Submit(MakeRequest(64, 2048), std::make_shared<TokenStream>(nullptr)).ok())
      std::abort();
  for (int32_t turn = 0; turn < sequences + 50; ++turn) scheduler.Step();  // past every prompt
  constexpr int kTurns = 1000;
  const absl::Time begin = absl::Now();
  for (int turn = 0; turn < kTurns; ++turn) scheduler.Step();
  return absl::ToDoubleMicroseconds(absl::Now() - begin) / kTurns;
}

void Run() {
  for (int32_t stages : {1, 2, 4}) {
    for (int32_t sequences : {16, 256}) {
      std::printf("stages %d, %3d sequences:", stages, sequences);
      const double planning = TimePlanning(stages, sequences, 512);
      std::printf(", plan + build %6.1f us; turn %6.1f us, with 5000 waiting %6.1f us\n", planning,
                  TimeTurns(stages, sequences, 0), TimeTurns(stages, sequences, 5000));
    }
  }
}

}  // namespace
}  // namespace penstock

int main() { penstock::Run(); }
