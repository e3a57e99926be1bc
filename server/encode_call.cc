#include "server/encode_call.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "shard/base/status_macros.h"

namespace penstock {

void EncodeCall::Start(CallGate::Ticket ticket, const Front& front,
                       std::unique_ptr<EncodeMethod> method,
                       std::unique_ptr<ResponseStream> stream) {
  auto call =
      std::make_shared<EncodeCall>(std::move(ticket), front, std::move(method), std::move(stream));
  call->stream_->Begin(*call);
  call->CallActor::Begin(call->stream_->request().Length(), call->ticket_.context().text_pool);
}

EncodeCall::EncodeCall(CallGate::Ticket ticket, const Front& front,
                       std::unique_ptr<EncodeMethod> method, std::unique_ptr<ResponseStream> stream)
    : CallActor(ticket.context().text_pool),
      ticket_(std::move(ticket)),
      environment_(front.environment),
      method_(std::move(method)),
      stream_(std::move(stream)),
      arrival_(absl::Now()),
      deadlines_(arrival_, stream_->client_deadline(), environment_.bounds),
      alarm_(environment_.timer, [this] { Wake(); }) {}  // End() silences it before we go

void EncodeCall::OnCancel() {
  cancelled_.store(true);
  Wake();
}

void EncodeCall::OnDone() {
  environment_.metrics.OnCall(method_->name(), status_.code(), absl::Now() - arrival_);
  ticket_.Leave();
  Release();
}

void EncodeCall::Turn() {
  if (ended_) return;
  if (cancelled_.load()) return End(WhyCancelled());
  absl::Status status;
  if (!std::exchange(submitted_, true)) status = Submit();
  if (status.ok()) status = Absorb();
  if (!status.ok()) return End(std::move(status));
  if (unanswered_ == 0) return Respond();
  if (absl::Status late = CheckDeadlines(); !late.ok()) return End(std::move(late));
  SetAlarm();
}

absl::Status EncodeCall::Submit() {
  const ServingContext& context = ticket_.context();
  std::optional<TaskPool::LongTask> encoding;
  if (stream_->request().Length() > kShortRequest) encoding.emplace(context.text_pool);
  ASSIGN_OR_RETURN(EncodeTask task, method_->Parse(stream_->request(), context.model));
  deadlines_.SetQueueTimeout(task.queue_timeout);
  RETURN_IF_ERROR(CheckDeadlines());  // encoding takes its time, too
  for (size_t i = 0; i < task.requests.size(); ++i) {
    EncodeRequest& request = task.requests[i];
    request.arrival = arrival_;
    request.deadline = deadlines_.deadline();
    request.start_deadline = deadlines_.start_deadline();
    request.on_timeout = environment_.bounds.on_queue_timeout;
    auto reply = std::make_shared<EncodeReply>([weak = weak_from_this()] {
      if (auto call = weak.lock()) call->Wake();
    });
    inputs_.push_back({reply,
                       false,
                       {.values = {},
                        .tokens = static_cast<uint32_t>(request.tokens.size()),
                        .truncated = task.truncated[i]}});
    ++unanswered_;
    const absl::Status status = context.encoder->Submit(std::move(request), std::move(reply));
    if (status.ok()) continue;
    if (i == 0) return status;
    return absl::Status(status.code(),
                        absl::StrCat(status.message(), "; ", i, " of them are of this ",
                                     "call, which has ", task.requests.size()));
  }
  return absl::OkStatus();
}

absl::Status EncodeCall::Absorb() {
  for (Input& input : inputs_) {
    if (input.answered) continue;
    std::optional<EncodeReply::Result> result = input.reply->Take();
    if (!result) continue;
    RETURN_IF_ERROR(result->output.status());
    input.output.values = *std::move(result->output);
    input.answered = true;
    --unanswered_;
    AddTimes(result->times);
  }
  return absl::OkStatus();
}

void EncodeCall::AddTimes(const EncodeTimes& times) {
  first_start_ = std::min(first_start_, times.first_scheduled);
  last_start_ = std::max(last_start_, times.first_scheduled);
  last_result_ = std::max(last_result_, times.finished);
}

// Inputs that are to be delayed when their queue timeout passes do not end the call by it.
CallPhase EncodeCall::Phase() const {
  if (environment_.bounds.on_queue_timeout == TimeoutAction::kDelay) return CallPhase::kEncode;
  const bool all_started = std::all_of(inputs_.begin(), inputs_.end(),
                                       [](const Input& input) { return input.reply->started(); });
  return !inputs_.empty() && all_started ? CallPhase::kEncode : CallPhase::kQueue;
}

// An alarm that comes too early costs a turn, which sets it anew; so it is seldom moved.
void EncodeCall::SetAlarm() {
  const absl::Time next = deadlines_.Next(Phase(), /*writing=*/false);
  if (next < alarm_.time() || alarm_.time() <= absl::Now()) alarm_.Set(next);
}

void EncodeCall::Respond() {
  std::vector<EncodeOutput> outputs;
  for (Input& input : inputs_) outputs.push_back(std::move(input.output));
  v1::EncodeTimings timings;
  timings.set_queue_seconds(absl::ToDoubleSeconds(last_start_ - arrival_));
  timings.set_compute_seconds(absl::ToDoubleSeconds(last_result_ - first_start_));
  timings.set_total_seconds(absl::ToDoubleSeconds(absl::Now() - arrival_));
  response_ = method_->Respond(std::move(outputs), timings, ticket_.context().model);
  ended_ = true;
  alarm_.Cancel();
  stream_->WriteAndFinish(response_);
}

void EncodeCall::End(absl::Status status) {
  ended_ = true;
  alarm_.Cancel();
  CancelInputs();
  status_ = std::move(status);
  stream_->Finish(status_);
}

void EncodeCall::CancelInputs() {
  for (const Input& input : inputs_)
    if (!input.answered) input.reply->Cancel();
}

absl::Status EncodeCall::WhyCancelled() const {
  const absl::Status late =
      deadlines_.Check(absl::Now() + kDeadlineClockError, Phase(), /*writing=*/false);
  return late.ok() ? absl::CancelledError("the call was cancelled") : late;
}

}  // namespace penstock
