#include "scheduler/scheduler.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "scheduler/admission.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

// How long a cancellation or a deadline may go unnoticed while no step can be launched.
constexpr absl::Duration kPoll = absl::Milliseconds(50);
// How long the loss of a rank may go unnoticed while there is nothing to do.
constexpr absl::Duration kIdlePoll = absl::Milliseconds(250);

int32_t LimitOr(int32_t wanted, int32_t allowed) {
  return wanted > 0 ? std::min(wanted, allowed) : allowed;
}

SchedulerOptions Resolve(SchedulerOptions options, const ExecutorInfo& info) {
  options.max_queued = std::max(options.max_queued, 0);
  options.max_unread_tokens = std::max(options.max_unread_tokens, 1);
  options.max_sequences = LimitOr(options.max_sequences, info.max_sequences);
  options.max_step_tokens = LimitOr(options.max_step_tokens, info.max_step_tokens);
  options.prefill_chunk = LimitOr(options.prefill_chunk, options.max_step_tokens);
  return options;
}

SequenceRunner::Limits MakeLimits(const SchedulerOptions& options) {
  return {.max_sequences = options.max_sequences,
          .max_step_tokens = options.max_step_tokens,
          .prefill_chunk = options.prefill_chunk,
          .max_unread = options.max_unread_tokens,
          .recovery_timeout = options.recovery_timeout,
          .ageing = options.ageing,
          .max_decode_delay = options.max_decode_delay,
          .prefix_cache = options.prefix_cache,
          .batching = options.batching};
}

std::chrono::nanoseconds UntilAtMost(absl::Time time, absl::Duration longest) {
  return absl::ToChronoNanoseconds(std::clamp(time - absl::Now(), absl::ZeroDuration(), longest));
}

absl::Status ShuttingDown() { return absl::CancelledError("the server is shutting down"); }

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, Executor& executor,
                     SchedulerObserver& observer)
    : options_(Resolve(options, executor.info())),
      executor_(executor),
      observer_(observer),
      runner_(MakeLimits(options_), executor, observer),
      state_(runner_.state()) {}

Scheduler::~Scheduler() { Stop(absl::InfinitePast()); }

absl::Status Scheduler::Submit(GenerateRequest request, std::shared_ptr<TokenStream> stream) {
  RETURN_IF_ERROR(CheckRequest(request, executor_.info()));
  const absl::Time now = absl::Now();
  if (request.arrival == absl::Time()) request.arrival = now;
  if (request.sampling.masked_until_min.empty() && request.min_tokens > 0)
    request.sampling.masked_until_min = request.stop_tokens;
  auto sequence = std::make_unique<Sequence>(std::move(request), std::move(stream));

  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckCapacity());
  if (!state_.has_work() && submitted_.empty()) state_.last_progress = now;
  submitted_.push_back(std::move(sequence));
  return absl::OkStatus();
}

absl::Status Scheduler::CheckCapacity() const {
  if (stopping()) return absl::UnavailableError("the server is shutting down");
  if (!lost_.ok()) return lost_;
  // What can start at the next step does not queue, though the loop has not seen it yet.
  const int32_t startable =
      state_.waiting == 0 ? std::max(0, options_.max_sequences - state_.running) : 0;
  const int64_t queued = state_.waiting + static_cast<int64_t>(submitted_.size());
  if (queued < int64_t{options_.max_queued} + startable) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the queue is full: ", queued - startable, " sequences wait, ", state_.running + startable,
      " run or start now (max-queue ", options_.max_queued, ")"));
}

SchedulerState Scheduler::state() const {
  MutexLock lock(&mutex_);
  SchedulerState state = state_;
  state.waiting += static_cast<int32_t>(submitted_.size());
  for (const auto& sequence : submitted_) state.pending_tokens += sequence->outstanding();
  return state;
}

bool Scheduler::Step() {
  if (!TakeSubmitted()) {
    runner_.CloseAll(ShuttingDown());
    PublishState();
    return false;
  }
  const bool progress = runner_.Prepare();
  PublishState();  // before a wait that may be long
  if (!runner_.has_steps()) return progress;
  runner_.FinishOldestStep();
  PublishState();
  return true;
}

// False when the time for finishing it is over.
bool Scheduler::TakeSubmitted() {
  std::vector<std::unique_ptr<Sequence>> submitted;
  bool in_time = true;
  {
    MutexLock lock(&mutex_);
    submitted.swap(submitted_);
    state_.waiting += static_cast<int32_t>(submitted.size());
    for (const auto& sequence : submitted) state_.pending_tokens += sequence->outstanding();
    in_time = !stopping() || absl::Now() < stop_deadline();
  }
  for (auto& sequence : submitted) runner_.Accept(std::move(sequence));
  return in_time;
}

void Scheduler::PublishState() {
  SchedulerState state = runner_.state();
  {
    MutexLock lock(&mutex_);
    state.last_progress = std::max(state.last_progress, state_.last_progress);
    state_ = state;
    lost_ = runner_.lost();
    state.waiting += static_cast<int32_t>(submitted_.size());
  }
  observer_.OnState(state);
}

bool Scheduler::AwaitWork() {
  const bool idle = !runner_.has_sequences();
  const absl::Time retry = runner_.next_attempt();  // infinitely far when there is none to do
  MutexLock lock(&mutex_);
  const auto called = [&] {
    mutex_.AssertHeld();
    return !submitted_.empty() || (idle && stopping());
  };
  mutex_.AwaitFor(called, UntilAtMost(retry, idle ? kIdlePoll : kPoll));
  return !(idle && stopping() && submitted_.empty());
}

void Scheduler::AbortExecutor() { executor_.Abort(ShuttingDown()); }

}  // namespace penstock
