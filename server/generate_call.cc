#include "server/generate_call.h"

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "absl/time/clock.h"
#include "server/request_validation.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

uint64_t DrawNumber() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace

void GenerateCall::Start(CallGate::Ticket ticket, const Front& front,
                         std::unique_ptr<GenerateMethod> method,
                         std::unique_ptr<ResponseStream> stream) {
  auto call = std::make_shared<GenerateCall>(std::move(ticket), front, std::move(method),
                                             std::move(stream));
  call->stream_->Begin(*call);
  call->CallActor::Begin(call->stream_->request().Length(), call->ticket_.context().text_pool);
}

GenerateCall::GenerateCall(CallGate::Ticket ticket, const Front& front,
                           std::unique_ptr<GenerateMethod> method,
                           std::unique_ptr<ResponseStream> stream)
    : CallActor(front.loop),
      ticket_(std::move(ticket)),
      environment_(front.environment),
      method_(std::move(method)),
      stream_(std::move(stream)),
      arrival_(absl::Now()),
      deadlines_(arrival_, stream_->client_deadline(), environment_.bounds),
      alarm_(environment_.timer, [this] { Wake(); }) {}  // End() silences it before we go

void GenerateCall::OnWriteDone(bool ok) {
  if (!ok) cancelled_.store(true);
  if (write_.exchange(WriteState::kNone) == WriteState::kAwaited || !ok) Wake();
}

void GenerateCall::OnCancel() {
  cancelled_.store(true);
  Wake();
}

void GenerateCall::OnDone() {
  environment_.metrics.OnCall(method_->name(), status_.code(), absl::Now() - arrival_);
  ticket_.Leave();
  Release();
}

void GenerateCall::Turn() {
  if (ended_) return;
  const bool writing = AwaitWrite();
  if (cancelled_.load() || !given_up_.ok()) return Abandon(writing);
  absl::Status status;
  if (!std::exchange(submitted_, true)) status = Submit();
  if (status.ok()) status = AbsorbAll(writing);
  if (absl::Status late = CheckDeadlines(); !late.ok()) return GiveUp(writing, std::move(late));
  if (!writing) {  // else OnWriteDone brings us back, and failures are sticky
    if (!status.ok()) return End(std::move(status));
    Write();
  }
  SetAlarm();
}

// Whether a write is outstanding. Then its end brings another turn.
bool GenerateCall::AwaitWrite() {
  WriteState state = write_.load();
  while (state == WriteState::kOutstanding &&
         !write_.compare_exchange_weak(state, WriteState::kAwaited)) {
  }
  return state != WriteState::kNone;
}

void GenerateCall::Abandon(bool writing) {
  CancelSamples();
  if (!writing) End(given_up_.ok() ? WhyCancelled() : given_up_);
  // Else OnWriteDone brings us back.
}

absl::Status GenerateCall::Submit() {
  const ServingContext& context = ticket_.context();
  std::optional<TaskPool::LongTask> encoding;
  if (stream_->request().Length() > kShortRequest) encoding.emplace(context.text_pool);
  method_->SetCancel([weak = weak_from_this()] {
    if (auto call = weak.lock()) static_cast<GenerateCall&>(*call).OnCancel();
  });
  ASSIGN_OR_RETURN(const std::vector<v1::GenerateRequest> requests,
                   method_->Parse(stream_->request(), context.model));
  for (size_t i = 0; i < requests.size(); ++i) RETURN_IF_ERROR(SubmitPrompt(i, requests[i]));
  return absl::OkStatus();
}

absl::Status GenerateCall::SubmitPrompt(size_t prompt, const v1::GenerateRequest& request) {
  const ServingContext& context = ticket_.context();
  absl::StatusOr<GenerationTask> parsed =
      ParseGenerateRequest(request, context.model, DrawNumber());
  if (!parsed.ok()) return method_->Explain(parsed.status());
  GenerationTask& task = *parsed;
  deadlines_.SetQueueTimeout(task.queue_timeout);
  RETURN_IF_ERROR(CheckDeadlines());  // encoding takes its time, too
  task.sequence.arrival = arrival_;
  task.sequence.deadline = deadlines_.deadline();
  task.sequence.start_deadline = deadlines_.start_deadline();
  for (int32_t i = 0; i < task.samples; ++i) {
    auto stream = std::make_shared<TokenStream>([weak = weak_from_this()] {
      if (auto call = weak.lock()) call->Wake();
    });
    samples_.emplace_back(task, i, context.model.tokenizer, stream);
    prompts_.push_back(prompt);
    if (!samples_.back().Resume(task)) continue;
    GenerateRequest sequence = task.sequence;
    sequence.sample_index = i;
    RETURN_IF_ERROR(context.generator->Submit(std::move(sequence), std::move(stream)));
  }
  return absl::OkStatus();
}

absl::Status GenerateCall::AbsorbAll(bool writing) {
  for (Sample& sample : samples_) {
    if (writing && IsFull(sample)) continue;
    sample.Absorb();
    RETURN_IF_ERROR(sample.status());
  }
  return absl::OkStatus();
}

bool GenerateCall::IsFull(const Sample& sample) const {
  return sample.unsent_tokens() >= environment_.bounds.max_unread_tokens;
}

void GenerateCall::Write() {
  if (sent_ == outbox_.size()) Respond();
  if (sent_ == outbox_.size()) {
    if (AllFinished()) End(absl::OkStatus());
    return;
  }
  const grpc::ByteBuffer& message = outbox_[sent_++];
  write_.store(HasMore() ? WriteState::kAwaited : WriteState::kOutstanding);
  deadlines_.OnWriteBegin(absl::Now());
  stream_->Write(message);
}

// Fills the outbox with what the method makes of the news, if there is any.
void GenerateCall::Respond() {
  outbox_.clear();
  sent_ = 0;
  for (size_t i = 0; i < samples_.size() && outbox_.empty(); ++i) {
    const size_t at = (next_ + i) % samples_.size();
    if (samples_[at].has_message())
      method_->Respond(prompts_[at], samples_[at].TakeMessage(), &outbox_);
    if (!outbox_.empty()) next_ = (at + 1) % samples_.size();
  }
  if (outbox_.empty() && AllFinished() && !std::exchange(method_finished_, true))
    method_->Finish(&outbox_);
}

// Whether there is something to be sent that the streams will not wake the call for: messages, or
// the status.
bool GenerateCall::HasMore() const {
  return sent_ < outbox_.size() || AllFinished() ||
         std::any_of(samples_.begin(), samples_.end(),
                     [](const Sample& sample) { return sample.has_message(); });
}

bool GenerateCall::AllFinished() const {
  return std::all_of(samples_.begin(), samples_.end(),
                     [](const Sample& sample) { return sample.finished(); });
}

CallPhase GenerateCall::Phase() const {
  const auto all = [this](auto holds) {
    return std::all_of(samples_.begin(), samples_.end(), holds);
  };
  if (samples_.empty() || !all([](const Sample& sample) { return sample.started(); }))
    return CallPhase::kQueue;
  const bool writing = this->writing();
  if (all([&](const Sample& sample) { return sample.complete() || (writing && IsFull(sample)); }))
    return CallPhase::kWrite;
  return all([](const Sample& sample) { return sample.complete() || sample.has_token(); })
             ? CallPhase::kDecode
             : CallPhase::kPrefill;
}

absl::Status GenerateCall::CheckDeadlines() {
  return deadlines_.Check(absl::Now(), Phase(), writing());
}

// An alarm that comes too early costs a turn, which sets it anew; so it is seldom moved.
void GenerateCall::SetAlarm() {
  if (ended_) return;
  const absl::Time next = deadlines_.Next(Phase(), writing());
  if (next < alarm_.time() || alarm_.time() <= absl::Now()) alarm_.Set(next);
}

// Ends the call now, though its client may not take what is being written: what a full
// flow-control window holds back is dropped, and the status goes past it.
void GenerateCall::GiveUp(bool writing, absl::Status why) {
  CancelSamples();
  if (!writing) return End(std::move(why));
  given_up_ = std::move(why);
  stream_->Drop(given_up_);  // OnWriteDone follows
}

void GenerateCall::CancelSamples() {
  for (Sample& sample : samples_) sample.Cancel();
}

void GenerateCall::End(absl::Status status) {
  ended_ = true;
  alarm_.Cancel();
  if (!status.ok()) CancelSamples();
  status_ = std::move(status);
  stream_->Finish(status_);
}

absl::Status GenerateCall::WhyCancelled() const {
  const absl::Status late =
      deadlines_.Check(absl::Now() + kDeadlineClockError, Phase(), /*writing=*/false);
  return late.ok() ? absl::CancelledError("the call was cancelled") : late;
}

}  // namespace penstock
