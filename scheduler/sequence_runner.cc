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
          .prefill_chunk = limits.prefill_chunk,
          .max_unread = limits.max_unread,
          .context_cost = info.context_cost,
          .batching = limits.batching};
}

// A year is as good as never, and a hundred of them still fit in 64 bits of nanoseconds.
absl::Duration AgeingPerLevel(const SequenceRunner::Limits& limits) {
  constexpr absl::Duration kNever = absl::Hours(24 * 365);
  return limits.ageing > absl::ZeroDuration() ? std::min(limits.ageing, kNever) : kNever;
}

// Why a sequence should not be continued; OK when it should.
absl::Status WhyEnded(const Sequence& sequence, absl::Time now) {
  if (sequence.stream->cancelled()) return absl::CancelledError("cancelled by its reader");
  if (now >= sequence.request.deadline)
    return absl::DeadlineExceededError(
        absl::StrCat("its deadline passed with ", sequence.generated(), " of ",
                     sequence.request.max_tokens, " tokens generated"));
  if (sequence.times.first_scheduled == absl::InfinitePast() &&
      now >= sequence.request.start_deadline)
    return absl::DeadlineExceededError("it could not be started in the time allowed for waiting");
  return absl::OkStatus();
}

}  // namespace

SequenceRunner::SequenceRunner(const Limits& limits, Executor& executor,
                               SchedulerObserver& observer)
    : limits_(limits),
      executor_(executor),
      observer_(observer),
      table_(executor.info().kv_blocks, executor.info().kv_block_size, limits.max_sequences,
             limits.prefix_cache),
      planner_(MakePlannerOptions(limits, executor.info())),
      recovery_(executor, limits.recovery_timeout) {}

void SequenceRunner::Accept(std::unique_ptr<Sequence> sequence) {
  const GenerateRequest& request = sequence->request;
  sequence->precedence = {
      .due = absl::ToUnixNanos(request.arrival + request.priority * AgeingPerLevel(limits_)),
      .id = next_id_++};
  const FinishReason ending = sequence->Ending();  // a client that resumes may hold everything
  if (!lost().ok()) {
    Close(*sequence, FinishReason::kNone, lost());
  } else if (ending != FinishReason::kNone) {
    Close(*sequence, ending, absl::OkStatus());
  } else {
    table_.Enqueue(std::move(sequence));
  }
}

bool SequenceRunner::Prepare() {
  DropEnded();
  if (steps_.empty()) {
    if (const absl::Status lost = recovery_.unnoticed(); !lost.ok()) Fail(lost);
  }
  if (recovery_.active()) return TryRestart();
  const bool launched = Fill();
  if (!launched && AllPaused()) last_progress_ = absl::Now();  // it is the readers who stand still
  return launched;
}

bool SequenceRunner::AllPaused() const {
  const auto& running = table_.running();
  return steps_.empty() && table_.waiting().empty() &&
         std::all_of(running.begin(), running.end(),
                     [this](const auto& sequence) { return sequence->paused(limits_.max_unread); });
}

void SequenceRunner::DropEnded() {
  const absl::Time now = absl::Now();
  for (size_t i = 0; i < table_.running().size();) {
    Sequence& sequence = *table_.running()[i];
    const absl::Status ended = sequence.closed ? absl::OkStatus() : WhyEnded(sequence, now);
    if (ended.ok()) {
      ++i;
    } else {
      CloseRunning(sequence, FinishReason::kNone, ended);  // shortens running()
    }
  }
  RetirePadding();
  const size_t checks = std::min(kWaitingChecksPerTurn, table_.waiting().size());
  for (size_t done = 0; done < checks && !table_.waiting().empty(); ++done) {
    if (next_waiting_check_ >= table_.waiting().size()) next_waiting_check_ = 0;
    const absl::Status ended = WhyEnded(*table_.waiting()[next_waiting_check_], now);
    if (ended.ok()) {
      ++next_waiting_check_;
    } else {
      Close(*table_.TakeWaiting(next_waiting_check_), FinishReason::kNone, ended);
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
    if (planned.prefill) ++step.prefill_sequences;
    table_.Advance(sequence, planned.tokens);
    if (wants_shares)
      step.shares.push_back(
          {sequence.precedence.id, planned.tokens, sequence.computed, planned.prefill});
    sequence.slot_assigned = true;
    ++sequence.in_flight;
    if (sequence.times.first_scheduled == absl::InfinitePast()) {
      sequence.times.first_scheduled = step.launched;
      sequence.stream->MarkStarted();
      observer_.OnPrefix(static_cast<int32_t>(sequence.request.prompt.size()),
                         sequence.times.cached_tokens);
    }
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
    if (sequence.padding) --sequence.computed;  // the same row again
    if (!planned.samples) continue;
    SampledToken& token = result.samples[next_sample++];
    if (!sequence.closed) CommitToken(sequence, std::move(token), last_progress_);
  }
  table_.Reap();
  MeasurePrefill(step.plan, result.stages);
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
  if (ending != FinishReason::kNone) End(sequence, ending);
}

void SequenceRunner::End(Sequence& sequence, FinishReason reason) {
  if (limits_.batching != Batching::kStaticPadded)
    return CloseRunning(sequence, reason, absl::OkStatus());
  Close(sequence, reason, absl::OkStatus());
  sequence.padding = true;
}

// A padded batch ends when its last sequence does.
void SequenceRunner::RetirePadding() {
  const auto& running = table_.running();
  const auto padding = [](const auto& sequence) { return sequence->padding; };
  if (limits_.batching != Batching::kStaticPadded ||
      !std::all_of(running.begin(), running.end(), padding))
    return;
  while (!running.empty()) table_.Retire(*running.back());
}

// How many prompt tokens may join a step so that all decoding sequences, one group per stage, are
// held up no longer than allowed.
void SequenceRunner::MeasurePrefill(const StepPlan& plan, const std::vector<StageTiming>& stages) {
  constexpr int32_t kEnoughRows = 16;
  constexpr double kWeight = 0.2;  // of the newest measurement
  if (limits_.max_decode_delay <= absl::ZeroDuration() || plan.prefill_tokens < kEnoughRows) return;
  double slowest = 0;
  for (const StageTiming& stage : stages)
    slowest = std::max(slowest, static_cast<double>(stage.end - stage.begin) * 1e-9);
  if (slowest <= 0) return;
  const double seconds = slowest / (plan.prefill_tokens + plan.decode_tokens);
  row_seconds_ = row_seconds_ == 0 ? seconds : (1 - kWeight) * row_seconds_ + kWeight * seconds;
  const double rows =
      absl::ToDoubleSeconds(limits_.max_decode_delay) / (row_seconds_ * executor_.info().stages);
  planner_.set_mixed_prefill(
      static_cast<int32_t>(std::clamp<double>(rows, kEnoughRows, limits_.prefill_chunk)));
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
  if (!sequence.closed) Close(sequence, reason, status);
  table_.Retire(sequence);  // may destroy it
}

SchedulerState SequenceRunner::state() const {
  return {.running = static_cast<int32_t>(table_.running().size()),
          .waiting = static_cast<int32_t>(table_.waiting().size()),
          .kv_blocks_used = table_.pool().used(),
          .kv_blocks_cached = table_.pool().kept(),
          .kv_blocks_total = table_.pool().total(),
          .in_flight = static_cast<int32_t>(steps_.size()),
          .pending_tokens = table_.outstanding(),
          .healthy = recovery_.healthy(),
          .last_progress = last_progress_};
}

}  // namespace penstock
