#include "scheduler/sequence_runner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "scheduler/batch_builder.h"

namespace penstock {
namespace {

// Waiting sequences whose cancellation is looked for per turn: a queue of thousands must not slow
// every step down.
constexpr size_t kWaitingChecksPerTurn = 128;

PlannerOptions MakePlannerOptions(const SequenceRunner::Limits& limits, const ExecutorInfo& info) {
  return {.stages = info.stages,
          .max_in_flight = info.max_in_flight,
          .max_step_tokens = limits.max_step_tokens,
          .prefill_chunk = limits.prefill_chunk};
}

absl::Status ClientCancelled() { return absl::CancelledError("cancelled by its reader"); }

}  // namespace

SequenceRunner::SequenceRunner(const Limits& limits, Executor& executor,
                               SchedulerObserver& observer)
    : limits_(limits),
      executor_(executor),
      observer_(observer),
      table_(executor.info().kv_blocks, executor.info().kv_block_size, limits.max_sequences),
      planner_(MakePlannerOptions(limits, executor.info())) {}

void SequenceRunner::Accept(std::unique_ptr<Sequence> sequence) {
  sequence->order = next_order_++;
  const FinishReason ending = sequence->Ending();  // a client that resumes may hold everything
  if (!lost_.ok()) {
    Close(*sequence, FinishReason::kNone, lost_);
  } else if (ending != FinishReason::kNone) {
    Close(*sequence, ending, absl::OkStatus());
  } else {
    table_.Enqueue(std::move(sequence));
  }
}

bool SequenceRunner::Prepare() {
  DropCancelled();
  return recovery_ ? TryRestart() : Fill();
}

void SequenceRunner::DropCancelled() {
  for (size_t i = 0; i < table_.running().size();) {
    Sequence& sequence = *table_.running()[i];
    if (sequence.stream->cancelled()) {
      CloseRunning(sequence, FinishReason::kNone, ClientCancelled());  // shortens running()
    } else {
      ++i;
    }
  }
  const size_t checks = std::min(kWaitingChecksPerTurn, table_.waiting().size());
  for (size_t done = 0; done < checks && !table_.waiting().empty(); ++done) {
    if (next_waiting_check_ >= table_.waiting().size()) next_waiting_check_ = 0;
    if (table_.waiting()[next_waiting_check_]->stream->cancelled()) {
      Close(*table_.TakeWaiting(next_waiting_check_), FinishReason::kNone, ClientCancelled());
    } else {
      ++next_waiting_check_;
    }
  }
}

bool SequenceRunner::Fill() {
  bool launched = false;
  while (static_cast<int32_t>(steps_.size()) < executor_.info().max_in_flight) {
    StepPlan plan = planner_.Plan(
        table_, {.steps = static_cast<int32_t>(steps_.size()), .sampling = sampling_steps_});
    for (int32_t i = 0; i < plan.preempted; ++i) observer_.OnPreempt();
    if (plan.run.empty()) break;
    Launch(std::move(plan));
    launched = true;
  }
  return launched;
}

void SequenceRunner::Launch(StepPlan plan) {
  StepBatch batch = BuildBatch(plan, table_.pool().block_size(), next_step_, executor_.epoch());
  LaunchedStep step{.step = next_step_++, .launched = absl::Now(), .plan = std::move(plan)};
  step.samples = static_cast<int32_t>(batch.samples.size());
  const bool wants_shares = observer_.wants_shares();
  for (const PlannedSequence& planned : step.plan.run) {
    Sequence& sequence = *planned.sequence;
    const bool prefill = !sequence.decoding();
    if (prefill) ++step.prefill_sequences;
    sequence.computed += planned.tokens;
    if (wants_shares)
      step.shares.push_back({sequence.order, planned.tokens, sequence.computed, prefill});
    sequence.slot_assigned = true;
    ++sequence.in_flight;
    if (sequence.times.first_scheduled == absl::InfinitePast())
      sequence.times.first_scheduled = step.launched;
  }
  if (step.samples > 0) ++sampling_steps_;
  steps_.push_back(std::move(step));
  executor_.Launch(std::move(batch));
}

void SequenceRunner::FinishOldestStep() {
  absl::StatusOr<StepResult> result = executor_.Wait();
  const absl::Status status = result.ok() ? CheckResult(steps_.front(), *result) : result.status();
  if (!status.ok()) return Fail(status);
  const LaunchedStep step = std::move(steps_.front());
  steps_.pop_front();
  Commit(step, *std::move(result));
}

absl::Status SequenceRunner::CheckResult(const LaunchedStep& step, const StepResult& result) const {
  if (result.step != step.step || result.samples.size() != static_cast<size_t>(step.samples))
    return absl::InternalError(absl::StrCat("step ", step.step, " with ", step.samples,
                                            " samples: the executor answered step ", result.step,
                                            " with ", result.samples.size()));
  const int32_t vocab = executor_.info().vocab;
  for (const SampledToken& sample : result.samples)
    if (sample.token != kNoToken && !(sample.token >= 0 && sample.token < vocab))
      return absl::InternalError(absl::StrCat("step ", step.step, ": the executor drew token ",
                                              sample.token, ", outside the vocabulary [0, ", vocab,
                                              ")"));
  return absl::OkStatus();
}

void SequenceRunner::Commit(const LaunchedStep& step, StepResult result) {
  if (step.samples > 0) --sampling_steps_;
  last_progress_ = absl::Now();
  size_t next_sample = 0;
  for (const PlannedSequence& planned : step.plan.run) {
    Sequence& sequence = *planned.sequence;
    --sequence.in_flight;
    if (!planned.samples) continue;
    SampledToken& token = result.samples[next_sample++];
    if (!sequence.closed) CommitToken(sequence, std::move(token), last_progress_);
  }
  table_.Reap();
  observer_.OnStep({.step = step.step,
                    .epoch = executor_.epoch(),
                    .sequences = static_cast<int32_t>(step.plan.run.size()),
                    .prefill_sequences = step.prefill_sequences,
                    .prefill_tokens = step.plan.prefill_tokens,
                    .decode_tokens = step.plan.decode_tokens,
                    .launched = step.launched,
                    .committed = last_progress_,
                    .stages = std::move(result.stages),
                    .shares = step.shares});
}

void SequenceRunner::CommitToken(Sequence& sequence, SampledToken token, absl::Time now) {
  if (token.token == kNoToken)
    return CloseRunning(
        sequence, FinishReason::kNone,
        absl::InternalError(absl::StrCat("the model's logits at position ", sequence.tokens.size(),
                                         " are not finite")));
  sequence.failures = 0;
  sequence.tokens.push_back(token.token);
  SequenceTimes& times = sequence.times;
  if (times.first_token == absl::InfinitePast()) {
    times.first_token = now;
  } else {
    observer_.OnToken(now - times.last_token);
  }
  times.last_token = now;
  sequence.stream->Write(std::move(token));
  const FinishReason ending = sequence.Ending();
  if (ending != FinishReason::kNone) CloseRunning(sequence, ending, absl::OkStatus());
}

void SequenceRunner::Close(Sequence& sequence, FinishReason reason, const absl::Status& status) {
  sequence.closed = true;
  // Told first: who sees the stream's end then finds it counted.
  observer_.OnFinish({.reason = reason,
                      .status = status,
                      .times = sequence.times,
                      .prompt_tokens = static_cast<int32_t>(sequence.request.prompt.size()),
                      .output_tokens = sequence.drawn()});
  sequence.stream->Close(reason, status, sequence.times);
}

void SequenceRunner::CloseRunning(Sequence& sequence, FinishReason reason,
                                  const absl::Status& status) {
  Close(sequence, reason, status);
  table_.Retire(sequence);  // may destroy it
}

SchedulerState SequenceRunner::state() const {
  return {.running = static_cast<int32_t>(table_.running().size()),
          .waiting = static_cast<int32_t>(table_.waiting().size()),
          .kv_blocks_used = table_.pool().used(),
          .kv_blocks_total = table_.pool().total(),
          .in_flight = static_cast<int32_t>(steps_.size()),
          .healthy = !recovery_ && lost_.ok(),
          .last_progress = last_progress_};
}

}  // namespace penstock
