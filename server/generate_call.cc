#include "server/generate_call.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/time/clock.h"
#include "server/grpc_status.h"
#include "server/request_validation.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

uint64_t DrawSeed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

absl::Status Deserialize(const grpc::ByteBuffer& bytes, v1::GenerateRequest* request) {
  grpc::ByteBuffer copy(bytes);  // shares the bytes; reading uses it up
  if (grpc::SerializationTraits<v1::GenerateRequest>::Deserialize(&copy, request).ok())
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      "the request is no penstock.v1.GenerateRequest: it is malformed, or one of its strings "
      "(model, text, stopping.stop) is not UTF-8");
}

grpc::ByteBuffer Serialize(const v1::GenerateResponse& response) {
  grpc::ByteBuffer bytes;
  bool own = false;
  const grpc::Status status =
      grpc::SerializationTraits<v1::GenerateResponse>::Serialize(response, &bytes, &own);
  GPR_ASSERT(status.ok());  // it fails only beyond 2 GiB, which max_tokens rules out
  return bytes;
}

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* GenerateCall::Start(
    CallGate::Ticket ticket, Metrics& metrics, const grpc::CallbackServerContext& context,
    const grpc::ByteBuffer& request) {
  auto call = std::make_shared<GenerateCall>(std::move(ticket), metrics, context, request);
  call->self_ = call;
  call->Wake();
  return call.get();
}

GenerateCall::GenerateCall(CallGate::Ticket ticket, Metrics& metrics,
                           const grpc::CallbackServerContext& context,
                           const grpc::ByteBuffer& request)
    : ticket_(std::move(ticket)),
      pool_(ticket_.context().text_pool),
      metrics_(metrics),
      grpc_context_(context),
      request_(request),
      arrival_(absl::Now()) {}

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
  metrics_.OnCall("Generate", status_.code(), absl::Now() - arrival_);
  ticket_.Leave();
  self_.reset();
}

void GenerateCall::Wake() {
  if (wakes_.fetch_add(1) != 0) return;  // a turn is on its way and will see what happened
  pool_.Post([call = shared_from_this()] { call->Run(); });
}

void GenerateCall::Run() {
  const int seen = wakes_.load();
  Turn();
  if (wakes_.fetch_sub(seen) == seen) return;
  // Woken meanwhile: another turn, behind the other calls' tasks.
  pool_.Post([call = shared_from_this()] { call->Run(); });
}

void GenerateCall::Turn() {
  if (ended_) return;
  if (cancelled_.load()) return Abandon();
  absl::Status status;
  if (!std::exchange(submitted_, true)) status = Submit();
  if (status.ok()) status = AbsorbAll();
  if (writing_.load()) return;  // OnWriteDone brings us back, and failures are sticky
  if (!status.ok()) return End(std::move(status));
  Write();
}

void GenerateCall::Abandon() {
  for (Sample& sample : samples_) sample.Cancel();
  if (!writing_.load()) End(WhyCancelled());  // else OnWriteDone brings us back
}

absl::Status GenerateCall::Submit() {
  const ServingContext& context = ticket_.context();
  v1::GenerateRequest request;
  RETURN_IF_ERROR(Deserialize(request_, &request));
  ASSIGN_OR_RETURN(GenerationTask task, ParseGenerateRequest(request, context.model, DrawSeed()));
  task.sequence.arrival = arrival_;
  for (int32_t i = 0; i < task.samples; ++i) {
    auto stream = std::make_shared<TokenStream>([weak = weak_from_this()] {
      if (auto call = weak.lock()) call->Wake();
    });
    samples_.emplace_back(task, i, context.model.tokenizer, stream);
    if (!samples_.back().Resume(task)) continue;
    GenerateRequest sequence = task.sequence;
    sequence.sample_index = i;
    RETURN_IF_ERROR(context.generator.Submit(std::move(sequence), std::move(stream)));
  }
  return absl::OkStatus();
}

absl::Status GenerateCall::AbsorbAll() {
  for (Sample& sample : samples_) {
    sample.Absorb();
    RETURN_IF_ERROR(sample.status());
  }
  return absl::OkStatus();
}

void GenerateCall::Write() {
  for (size_t i = 0; i < samples_.size(); ++i) {
    Sample& sample = samples_[(next_ + i) % samples_.size()];
    if (!sample.has_message()) continue;
    next_ = (next_ + i + 1) % samples_.size();
    message_ = Serialize(sample.TakeMessage());
    writing_.store(true);
    return StartWrite(&message_);
  }
  if (std::all_of(samples_.begin(), samples_.end(),
                  [](const Sample& sample) { return sample.finished(); }))
    End(absl::OkStatus());
}

void GenerateCall::End(absl::Status status) {
  ended_ = true;
  if (!status.ok())
    for (Sample& sample : samples_) sample.Cancel();
  status_ = std::move(status);
  Finish(ToGrpc(status_));
}

absl::Status GenerateCall::WhyCancelled() const {
  if (std::chrono::system_clock::now() >= grpc_context_.deadline())
    return absl::DeadlineExceededError("the client's deadline has passed");
  return absl::CancelledError("the call was cancelled");
}

}  // namespace penstock
