#include "server/generate_call.h"

#include <grpc/grpc.h>

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "absl/time/clock.h"
#include "server/grpc_status.h"
#include "server/raw_message.h"
#include "server/request_validation.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

uint64_t DrawNumber() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

constexpr absl::string_view kStrings = "model, text, stopping.stop, scheduling.cache_salt";

}  // namespace

void GenerateCall::Start(CallGate::Ticket ticket, const CallEnvironment& environment,
                         CallLoop& loop, std::unique_ptr<ServerStream> stream) {
  auto call =
      std::make_shared<GenerateCall>(std::move(ticket), environment, loop, std::move(stream));
  call->stream_->Begin(*call);
  call->Begin(call->stream_->request().Length(), call->ticket_.context().text_pool);
}

GenerateCall::GenerateCall(CallGate::Ticket ticket, const CallEnvironment& environment,
                           CallLoop& loop, std::unique_ptr<ServerStream> stream)
    : CallActor(loop),
      ticket_(std::move(ticket)),
      environment_(environment),
      stream_(std::move(stream)),
      arrival_(absl::Now()),
      deadlines_(arrival_, ClientDeadline(stream_->context()), environment.bounds),
      alarm_(environment.timer, [this] { Wake(); }) {}  // End() silences it before we go

void GenerateCall::OnWriteDone(bool ok) {
  if (!ok) cancelled_.store(true);
  if (write_.exchange(WriteState::kNone) == WriteState::kAwaited || !ok) Wake();
}

void GenerateCall::OnCancel() {
  cancelled_.store(true);
  Wake();
}

void GenerateCall::OnDone() {
  environment_.metrics.OnCall("Generate", status_.code(), absl::Now() - arrival_);
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
  ASSIGN_OR_RETURN(const auto request,
                   ParseMessage<v1::GenerateRequest>(stream_->request(), kStrings));
  ASSIGN_OR_RETURN(GenerationTask task, ParseGenerateRequest(request, context.model, DrawNumber()));
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
  for (size_t i = 0; i < samples_.size(); ++i) {
    Sample& sample = samples_[(next_ + i) % samples_.size()];
    if (!sample.has_message()) continue;
    next_ = (next_ + i + 1) % samples_.size();
    message_ = SerializeMessage(sample.TakeMessage());  // max_tokens keeps it below 2 GiB
    write_.store(HasMore() ? WriteState::kAwaited : WriteState::kOutstanding);
    deadlines_.OnWriteBegin(absl::Now());
    return stream_->Write(message_);
  }
  if (HasMore()) End(absl::OkStatus());  // without a message there is the status alone
}

// Whether there is something to be sent that the streams will not wake the call for: messages of
// other samples, or the status.
bool GenerateCall::HasMore() const {
  const auto any = std::any_of(samples_.begin(), samples_.end(),
                               [](const Sample& sample) { return sample.has_message(); });
  return any || std::all_of(samples_.begin(), samples_.end(),
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
  grpc_call_cancel_with_status(
      stream_->context().c_call(), static_cast<grpc_status_code>(given_up_.code()),
      std::string(given_up_.message()).c_str(), nullptr);  // OnWriteDone follows
}

void GenerateCall::CancelSamples() {
  for (Sample& sample : samples_) sample.Cancel();
}

void GenerateCall::End(absl::Status status) {
  ended_ = true;
  alarm_.Cancel();
  if (!status.ok()) CancelSamples();
  status_ = std::move(status);
  stream_->Finish(ToGrpc(status_));
}

absl::Status GenerateCall::WhyCancelled() const {
  const absl::Status late =
      deadlines_.Check(absl::Now() + kDeadlineClockError, Phase(), /*writing=*/false);
  return late.ok() ? absl::CancelledError("the call was cancelled") : late;
}

}  // namespace penstock
