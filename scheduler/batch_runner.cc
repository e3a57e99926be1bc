#include "scheduler/batch_runner.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

namespace penstock {
namespace {

constexpr size_t kCancelChecksPerTurn = 128;

absl::Status ClientCancelled() { return absl::CancelledError("cancelled by its reader"); }

absl::Status Late(const QueuedRequest& request, absl::Time now) {
  if (request.request.deadline <= now)
    return absl::DeadlineExceededError("its deadline passed while it waited in the queue");
  return absl::DeadlineExceededError(
      absl::StrCat("it waited in the queue for longer than its queue timeout of ",
                   absl::FormatDuration(request.request.start_deadline - request.request.arrival)));
}

bool AllFinite(const float* begin, const float* end) {
  return std::all_of(begin, end, [](float value) { return std::isfinite(value); });
}

void AppendTypes(const EncodeRequest& request, std::vector<int32_t>* types) {
  if (request.types.empty()) {
    types->resize(types->size() + request.tokens.size(), 0);
  } else {
    types->insert(types->end(), request.types.begin(), request.types.end());
  }
}

}  // namespace

StepBatch BuildEncodeBatch(const std::vector<const QueuedRequest*>& requests, int64_t step,
                           uint64_t epoch) {
  StepBatch batch;
  batch.step = step;
  batch.epoch = epoch;
  batch.kind = StepKind::kEncode;
  batch.seq_begin.push_back(0);
  const bool has_types = std::any_of(requests.begin(), requests.end(),
                                     [](const auto* r) { return !r->request.types.empty(); });
  for (const QueuedRequest* queued : requests) {
    const EncodeRequest& request = queued->request;
    const size_t begin = batch.tokens.size();
    batch.tokens.insert(batch.tokens.end(), request.tokens.begin(), request.tokens.end());
    batch.positions.resize(batch.tokens.size());
    std::iota(batch.positions.begin() + static_cast<ptrdiff_t>(begin), batch.positions.end(), 0);
    if (has_types) AppendTypes(request, &batch.token_types);
    batch.context_lens.push_back(static_cast<int32_t>(request.tokens.size()));
    batch.seq_begin.push_back(static_cast<int32_t>(batch.tokens.size()));
  }
  batch.plan_hash = HashPlan(batch);
  return batch;
}

BatchRunner::BatchRunner(const Options& options, Executor& executor, BatchObserver& observer,
                         Clock clock)
    : executor_(executor),
      observer_(observer),
      clock_(std::move(clock)),
      queue_(options.ageing, options.preserve_order),
      planner_(options.limits),
      delivery_(options.preserve_order),
      recovery_(executor, options.recovery_timeout) {}

void BatchRunner::Accept(std::unique_ptr<QueuedRequest> request) {
  request->order = next_order_++;
  request->times.arrival = request->request.arrival;
  planner_.OnArrival(request->times.arrival);
  delivery_.Expect(request->order);
  if (!lost().ok()) return End(*request, lost());
  queue_.Add(std::move(request));
}

bool BatchRunner::Prepare() {
  DropLate();
  if (steps_.empty()) {
    if (const absl::Status lost = recovery_.unnoticed(); !lost.ok()) Fail(lost);
  }
  if (!recovery_.active()) return Fill();
  if (!recovery_.TryRestart(clock_())) return false;
  if (recovery_.healthy()) {
    next_step_ = 0;
    last_progress_ = clock_();
    observer_.OnRecovery({.taken = last_progress_ - recovery_.began(), .tokens = lost_tokens_});
    lost_tokens_ = 0;
  } else if (!lost().ok()) {
    CloseAll(lost());
  }
  return true;
}

void BatchRunner::DropLate() {
  const absl::Time now = clock_();
  for (const auto& request : queue_.TakeExpired(now)) End(*request, Late(*request, now));
  for (const auto& request : queue_.TakeCancelled(kCancelChecksPerTurn))
    End(*request, ClientCancelled());
}

bool BatchRunner::Fill() {
  bool launched = false;
  while (steps_.empty() || !steps_.back().alone) {
    BatchPlan plan = planner_.Plan(queue_, static_cast<int32_t>(steps_.size()), clock_());
    if (plan.requests.empty()) break;
    const auto cancelled = [](const QueuedRequest* r) { return r->reply->cancelled(); };
    const auto place = std::find_if(plan.requests.begin(), plan.requests.end(), cancelled);
    if (place != plan.requests.end()) {
      End(*queue_.Take(**place), ClientCancelled());  // makes room for others: plan again
    } else {
      Launch(plan);
    }
    launched = true;
  }
  return launched;
}

void BatchRunner::Launch(const BatchPlan& plan) {
  StepBatch batch = BuildEncodeBatch(plan.requests, next_step_, executor_.epoch());
  LaunchedStep step{.step = next_step_++,
                    .launched = clock_(),
                    .requests = {},
                    .tokens = static_cast<int64_t>(batch.tokens.size()),
                    .reason = plan.reason,
                    .alone = plan.alone};
  for (const QueuedRequest* planned : plan.requests) {
    std::unique_ptr<QueuedRequest> request = queue_.Take(*planned);
    request->reply->MarkStarted();
    if (request->times.first_scheduled == absl::InfinitePast())
      request->times.first_scheduled = step.launched;
    step.requests.push_back(std::move(request));
  }
  steps_.push_back(std::move(step));
  executor_.Launch(std::move(batch));
}

std::optional<BatchRunner::FinishedStep> BatchRunner::AwaitOldestStep() {
  absl::StatusOr<StepResult> result = executor_.Wait();
  const absl::Status status = result.ok() ? CheckResult(steps_.front(), *result) : result.status();
  if (!status.ok()) {
    Fail(status);
    return std::nullopt;
  }
  FinishedStep finished{std::move(steps_.front()), *std::move(result), clock_()};
  steps_.pop_front();
  const absl::Time began = std::max(finished.step.launched, last_progress_);
  estimate_.Observe(finished.step.tokens, finished.committed - began);
  last_progress_ = finished.committed;
  return finished;
}

absl::Status BatchRunner::CheckResult(const LaunchedStep& step, const StepResult& result) const {
  const size_t wanted = step.requests.size() * static_cast<size_t>(executor_.info().output_width);
  if (result.step == step.step && result.outputs.size() == wanted) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("step ", step.step, " with ", wanted,
                                          " outputs: the executor answered step ", result.step,
                                          " with ", result.outputs.size()));
}

void BatchRunner::Commit(FinishedStep finished) {
  Report(finished);
  const float* output = finished.result.outputs.data();
  const int32_t width = executor_.info().output_width;
  for (const auto& request : finished.step.requests) {
    request->times.finished = finished.committed;
    const float* end = output + width;
    if (request->reply->cancelled()) {
      End(*request, ClientCancelled());
    } else if (!AllFinite(output, end)) {
      End(*request, absl::InternalError("the model's result is not finite"));
    } else {
      End(*request, std::vector<float>(output, end));
    }
    output = end;
  }
}

void BatchRunner::Report(const FinishedStep& finished) {
  BatchReport report{.step = finished.step.step,
                     .epoch = executor_.epoch(),
                     .requests = static_cast<int32_t>(finished.step.requests.size()),
                     .tokens = finished.step.tokens,
                     .reason = finished.step.reason,
                     .launched = finished.step.launched,
                     .committed = finished.committed,
                     .stages = finished.result.stages,
                     .shares = {}};
  if (observer_.wants_shares())
    for (const auto& request : finished.step.requests) {
      const auto tokens = static_cast<int32_t>(request->tokens());
      report.shares.push_back({request->order, tokens, tokens, true});
    }
  observer_.OnBatch(report);
}

// The executor has failed, not the requests; but whoever is named by any step in flight may be the
// cause, since steps fail together.
void BatchRunner::Fail(const absl::Status& status) {
  recovery_.Begin(status, clock_());
  std::deque<LaunchedStep> failed;
  failed.swap(steps_);
  for (const LaunchedStep& step : failed) lost_tokens_ += step.tokens;
  for (LaunchedStep& step : failed)
    for (auto& request : step.requests)
      if (++request->failures < kMaxFailures) {
        queue_.Return(std::move(request));
      } else {
        End(*request, absl::InternalError(absl::StrCat("its steps failed ", kMaxFailures,
                                                       " times in a row: ", status.message())));
      }
}

void BatchRunner::End(const QueuedRequest& request, absl::StatusOr<std::vector<float>> output) {
  // Told first: who sees the reply then finds it counted.
  observer_.OnEncoded({.status = output.status(),
                       .times = request.times,
                       .tokens = static_cast<int32_t>(request.tokens())});
  delivery_.Deliver(request.order, request.reply, {std::move(output), request.times});
}

void BatchRunner::CloseAll(const absl::Status& status) {
  if (has_steps()) executor_.Abort(status);
  std::deque<LaunchedStep> left;
  left.swap(steps_);
  for (const LaunchedStep& step : left)
    for (const auto& request : step.requests) End(*request, status);
  while (!queue_.empty()) End(*queue_.Take(*queue_.by_key().begin()->second), status);
}

absl::Time BatchRunner::next_event() const {
  const absl::Time flush =
      recovery_.active() ? recovery_.next_attempt() : planner_.NextFlush(queue_);
  return std::min(flush, queue_.next_expiry());
}

int64_t BatchRunner::tokens_in_flight() const {
  int64_t tokens = 0;
  for (const LaunchedStep& step : steps_) tokens += step.tokens;
  return tokens;
}

SchedulerState BatchRunner::state() const {
  SchedulerState state;
  for (const LaunchedStep& step : steps_)
    state.running += static_cast<int32_t>(step.requests.size());
  state.waiting = static_cast<int32_t>(queue_.size());
  state.in_flight = static_cast<int32_t>(steps_.size());
  state.pending_tokens = queue_.tokens() + tokens_in_flight();
  state.healthy = recovery_.healthy();
  state.last_progress = last_progress_;
  return state;
}

}  // namespace penstock
