#include "server/generate_call.h"

#include <grpc/grpc.h>

#include <algorithm>
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

grpc::ServerWriteReactor<grpc::ByteBuffer>* GenerateCall::Start(
    CallGate::Ticket ticket, const CallEnvironment& environment,
    grpc::CallbackServerContext& context, const grpc::ByteBuffer& request) {
  auto call = std::make_shared<GenerateCall>(std::move(ticket), environment, context, request);
  call->Begin();
  call->Wake();
  return call.get();
}

GenerateCall::GenerateCall(CallGate::Ticket ticket, const CallEnvironment& environment,
                           grpc::CallbackServerContext& context, const grpc::ByteBuffer& request)
    : CallActor(ticket.context().text_pool),
      ticket_(std::move(ticket)),
      environment_(environment),
      grpc_context_(context),
      request_(request),
      arrival_(absl::Now()),
      deadlines_(arrival_, ClientDeadline(context), environment.bounds),
      alarm_(environment.timer, [this] { Wake(); }) {}  // End() silences it before we go

void GenerateCall::OnWriteDone(bool ok) {
  if (!ok) cancelled_.store(true);
  writing_.store(false);
  Wake();
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
  if (cancelled_.load() || !given_up_.ok()) return Abandon();
  absl::Status status;
  if (!std::exchange(submitted_, true)) status = Submit();
  if (status.ok()) status = AbsorbAll();
  if (absl::Status late = CheckDeadlines(); !late.ok()) return GiveUp(std::move(late));
  if (!writing_.load()) {  // else OnWriteDone brings us back, and failures are sticky
    if (!status.ok()) return End(std::move(status));
    Write();
  }
  SetAlarm();
}

void GenerateCall::Abandon() {
  CancelSamples();
  if (!writing_.load()) End(given_up_.ok() ? WhyCancelled() : given_up_);
  // Else OnWriteDone brings us back.
}

absl::Status GenerateCall::Submit() {
  const ServingContext& context = ticket_.context();
  ASSIGN_OR_RETURN(const auto request, ParseMessage<v1::GenerateRequest>(request_, kStrings));
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

absl::Status GenerateCall::AbsorbAll() {
  const bool writing = writing_.load();
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
    writing_.store(true);
    deadlines_.OnWriteBegin(absl::Now());
    return StartWrite(&message_);
  }
  if (std::all_of(samples_.begin(), samples_.end(),
                  [](const Sample& sample) { return sample.finished(); }))
    End(absl::OkStatus());
}

CallPhase GenerateCall::Phase() const {
  const auto all = [this](auto holds) {
    return std::all_of(samples_.begin(), samples_.end(), holds);
  };
  if (samples_.empty() || !all([](const Sample& sample) { return sample.started(); }))
    return CallPhase::kQueue;
  const bool writing = writing_.load();
  if (all([&](const Sample& sample) { return sample.complete() || (writing && IsFull(sample)); }))
    return CallPhase::kWrite;
  return all([](const Sample& sample) { return sample.complete() || sample.has_token(); })
             ? CallPhase::kDecode
             : CallPhase::kPrefill;
}

absl::Status GenerateCall::CheckDeadlines() {
  return deadlines_.Check(absl::Now(), Phase(), writing_.load());
}

// An alarm that comes too early costs a turn, which sets it anew; so it is seldom moved.
void GenerateCall::SetAlarm() {
  if (ended_) return;
  const absl::Time next = deadlines_.Next(Phase(), writing_.load());
  if (next < alarm_.time() || alarm_.time() <= absl::Now()) alarm_.Set(next);
}

// Ends the call now, though its client may not take what is being written: what a full
// flow-control window holds back is dropped, and the status goes past it.
void GenerateCall::GiveUp(absl::Status why) {
  CancelSamples();
  if (!writing_.load()) return End(std::move(why));
  given_up_ = std::move(why);
  grpc_call_cancel_with_status(
      grpc_context_.c_call(), static_cast<grpc_status_code>(given_up_.code()),
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
  Finish(ToGrpc(status_));
}

absl::Status GenerateCall::WhyCancelled() const {
  const absl::Status late =
      deadlines_.Check(absl::Now() + kDeadlineClockError, Phase(), /*writing=*/false);
  return late.ok() ? absl::CancelledError("the call was cancelled") : late;
}

}  // namespace penstock
