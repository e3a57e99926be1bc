#include "scheduler/request_batcher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shard/base/detached_status.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

// How long a cancellation may go unnoticed while requests are held back.
constexpr absl::Duration kPoll = absl::Milliseconds(50);
// How long the loss of a rank may go unnoticed while there is nothing to do.
constexpr absl::Duration kIdlePoll = absl::Milliseconds(250);

int32_t LimitOr(int32_t wanted, int32_t allowed) {
  return wanted > 0 ? std::min(wanted, allowed) : allowed;
}

BatcherOptions Resolve(BatcherOptions options, const ExecutorInfo& info) {
  options.max_batch = LimitOr(options.max_batch, info.max_sequences);
  options.max_batch_tokens = LimitOr(options.max_batch_tokens, info.max_step_tokens);
  options.max_queued = std::max(options.max_queued, 0);
  std::vector<int32_t>& sizes = options.preferred_sizes;
  std::erase_if(sizes, [&](int32_t size) { return size < 1 || size > options.max_batch; });
  std::sort(sizes.begin(), sizes.end());
  return options;
}

BatchRunner::Options MakeRunnerOptions(const BatcherOptions& options, const ExecutorInfo& info) {
  return {.limits = {.stages = info.stages,
                     .max_in_flight = info.max_in_flight,
                     .max_requests = options.max_batch,
                     .max_tokens = options.max_batch_tokens,
                     .max_queue_delay = options.max_queue_delay,
                     .preferred_sizes = options.preferred_sizes},
          .ageing = options.ageing,
          .preserve_order = options.preserve_order,
          .recovery_timeout = options.recovery_timeout};
}

// The server has checked these; a rank must never see anything else.
absl::Status CheckRequest(const EncodeRequest& request, const ExecutorInfo& info) {
  const auto tokens = static_cast<int64_t>(request.tokens.size());
  const int64_t longest = std::min(info.max_context, info.max_step_tokens);
  if (tokens == 0) return absl::InvalidArgumentError("the input is empty");
  if (tokens > longest)
    return absl::InvalidArgumentError(
        absl::StrCat("the input has ", tokens, " tokens; at most ", longest, " are possible"));
  if (!request.types.empty() && request.types.size() != request.tokens.size())
    return absl::InvalidArgumentError(
        absl::StrCat("the input has ", tokens, " tokens and ", request.types.size(), " types"));
  for (int32_t token : request.tokens)
    if (!(token >= 0 && token < info.vocab))
      return absl::InvalidArgumentError(
          absl::StrCat("the input has token id ", token, "; ids must be in [0, ", info.vocab, ")"));
  return absl::OkStatus();
}

absl::Status ShuttingDown() { return absl::CancelledError("the server is shutting down"); }

}  // namespace

RequestBatcher::RequestBatcher(const BatcherOptions& options, Executor& executor,
                               BatchObserver& observer, Clock clock)
    : options_(Resolve(options, executor.info())),
      executor_(executor),
      observer_(observer),
      clock_(clock),
      runner_(MakeRunnerOptions(options_, executor.info()), executor, observer, std::move(clock)),
      state_(runner_.state()) {}

RequestBatcher::~RequestBatcher() { Stop(absl::InfinitePast()); }

absl::Status RequestBatcher::Submit(EncodeRequest request, std::shared_ptr<EncodeReply> reply) {
  RETURN_IF_ERROR(CheckRequest(request, executor_.info()));
  const absl::Time now = clock_();
  if (request.arrival == absl::Time()) request.arrival = now;
  auto queued = std::make_unique<QueuedRequest>();
  queued->request = std::move(request);
  queued->reply = std::move(reply);

  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckCapacity());
  RETURN_IF_ERROR(CheckInTime(queued->request, now));
  if (!state_.has_work() && submitted_.empty()) state_.last_progress = now;
  submitted_tokens_ += queued->tokens();
  submitted_.push_back(std::move(queued));
  return absl::OkStatus();
}

absl::Status RequestBatcher::CheckCapacity() const {
  if (stopping()) return absl::UnavailableError("the server is shutting down");
  if (!lost_.ok()) return Detached(lost_);
  // What can start at the next step does not queue, though the loop has not seen it yet.
  const bool can_start = state_.waiting == 0 && state_.in_flight < executor_.info().stages;
  const int64_t startable = can_start ? options_.max_batch : 0;
  const int64_t queued = state_.waiting + static_cast<int64_t>(submitted_.size());
  if (queued < options_.max_queued + startable) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the queue is full: ", queued - startable, " requests wait, ", state_.running + startable,
      " run or start now (max-queue ", options_.max_queued, ")"));
}

absl::Status RequestBatcher::CheckInTime(const EncodeRequest& request, absl::Time now) const {
  if (!options_.refuse_late) return absl::OkStatus();
  // One that goes before most others waits for the steps in flight at least.
  const int64_t ahead =
      request.priority < 0 ? tokens_in_flight_ : state_.pending_tokens + submitted_tokens_;
  const auto own = static_cast<int64_t>(request.tokens.size());
  const auto time_for = [&](int64_t tokens) {
    mutex_.AssertHeld();
    return estimate_.TimeFor(tokens,
                             (tokens + options_.max_batch_tokens - 1) / options_.max_batch_tokens);
  };
  const absl::Duration start = time_for(ahead), finish = time_for(ahead + own);
  const bool late_start =
      request.on_timeout == TimeoutAction::kReject && now + start > request.start_deadline;
  if (!late_start && now + finish <= request.deadline) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "it could not be served in time: by the current estimate it would start in ",
      absl::FormatDuration(absl::Trunc(start, absl::Milliseconds(1))), " and be done in ",
      absl::FormatDuration(absl::Trunc(finish, absl::Milliseconds(1)))));
}

SchedulerState RequestBatcher::state() const {
  MutexLock lock(&mutex_);
  SchedulerState state = state_;
  state.waiting += static_cast<int32_t>(submitted_.size());
  state.pending_tokens += submitted_tokens_;
  return state;
}

bool RequestBatcher::Step() {
  if (!TakeSubmitted()) {
    runner_.CloseAll(ShuttingDown());
    PublishState();
    return false;
  }
  const bool progress = runner_.Prepare();
  PublishState();  // before a wait that may be long
  if (!runner_.has_steps()) return progress;
  std::optional<BatchRunner::FinishedStep> finished = runner_.AwaitOldestStep();
  if (finished) {
    // The executor goes on with what came meanwhile while the results are handed out.
    if (TakeSubmitted()) runner_.Prepare();
    runner_.Commit(*std::move(finished));
  }
  PublishState();
  return true;
}

// False when the time for finishing it is over.
bool RequestBatcher::TakeSubmitted() {
  std::vector<std::unique_ptr<QueuedRequest>> submitted;
  bool in_time = true;
  {
    MutexLock lock(&mutex_);
    submitted.swap(submitted_);
    state_.waiting += static_cast<int32_t>(submitted.size());
    state_.pending_tokens += std::exchange(submitted_tokens_, 0);
    in_time = !stopping() || clock_() < stop_deadline();
  }
  for (auto& request : submitted) runner_.Accept(std::move(request));
  return in_time;
}

void RequestBatcher::PublishState() {
  SchedulerState state = runner_.state();
  {
    MutexLock lock(&mutex_);
    state.last_progress = std::max(state.last_progress, state_.last_progress);
    state_ = state;
    estimate_ = runner_.estimate();
    tokens_in_flight_ = runner_.tokens_in_flight();
    lost_ = Detached(runner_.lost());
    state.waiting += static_cast<int32_t>(submitted_.size());
    state.pending_tokens += submitted_tokens_;
  }
  observer_.OnState(state);
}

bool RequestBatcher::AwaitWork() {
  const bool idle = !runner_.has_requests();
  const absl::Time next = runner_.next_event();  // infinitely far when there is none
  MutexLock lock(&mutex_);
  const auto called = [&] {
    mutex_.AssertHeld();
    return !submitted_.empty() || (idle && stopping());
  };
  mutex_.AwaitFor(called, absl::ToChronoNanoseconds(std::clamp(
                              next - clock_(), absl::ZeroDuration(), idle ? kIdlePoll : kPoll)));
  return !(idle && stopping() && submitted_.empty());
}

void RequestBatcher::AbortExecutor() { executor_.Abort(ShuttingDown()); }

}  // namespace penstock
