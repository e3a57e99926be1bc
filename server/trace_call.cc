#include "server/trace_call.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/grpc_status.h"

namespace penstock {
namespace {

constexpr double kMinSeconds = 0.1, kMaxSeconds = 300;

absl::Status Cancelled() { return absl::CancelledError("the call was cancelled"); }

}  // namespace

grpc::ServerWriteReactor<v1::TraceChunk>* TraceCall::Start(const TraceEnvironment& environment,
                                                           double seconds,
                                                           grpc::CallbackServerContext& context) {
  auto call = std::make_shared<TraceCall>(environment, seconds, context);
  call->self_ = call;
  call->Post(&TraceCall::Begin);
  return call.get();
}

TraceCall::TraceCall(const TraceEnvironment& environment, double seconds,
                     grpc::CallbackServerContext& context)
    : environment_(environment),
      seconds_(seconds),
      context_(context),
      arrival_(absl::Now()),
      recording_(std::make_shared<TraceRecording>(environment.options.capacity)),
      alarm_(environment.timer, [this] { Post(&TraceCall::Turn); }) {}

void TraceCall::OnDone() {
  environment_.metrics.OnCall("Trace", status_.code(), absl::Now() - arrival_);
  self_.reset();
}

void TraceCall::Post(void (TraceCall::*turn)()) {
  environment_.pool.Post([call = shared_from_this(), turn] { (call.get()->*turn)(); });
}

absl::Status TraceCall::Check() const {
  if (!(seconds_ >= kMinSeconds && seconds_ <= kMaxSeconds))
    return absl::InvalidArgumentError(
        absl::StrCat("seconds: must be in [", kMinSeconds, ", ", kMaxSeconds, "], not ", seconds_));
  if (environment_.metrics.Replicas().empty())
    return absl::UnavailableError("the server is starting: there is nothing to record yet");
  if (environment_.metrics.traces().tracers() >= environment_.options.max_tracers)
    return absl::ResourceExhaustedError(
        absl::StrCat(environment_.options.max_tracers, " tracers record already"));
  return absl::OkStatus();
}

void TraceCall::Begin() {
  if (absl::Status status = Check(); !status.ok()) return End(std::move(status));
  environment_.metrics.traces().Add(recording_);
  const absl::Time begin = absl::Now();
  clock_.emplace(begin);
  end_ = begin + absl::Seconds(seconds_);
  v1::TraceBegin* first = chunk_.mutable_begin();
  first->set_unix_nanoseconds(clock_->unix_nanoseconds());
  first->set_model(environment_.model);
  first->set_version(PENSTOCK_VERSION);
  int replica = 0;
  for (const ReplicaSnapshot& snapshot : environment_.metrics.Replicas()) {
    FillCounters(snapshot.stages, first->add_replicas());
    recording_->Add(TracedState{replica++, begin, snapshot.state});
  }
  Turn();
}

void TraceCall::Turn() {
  if (ended_) return;
  const absl::Time now = absl::Now();
  if (now >= end_ && recorded_ == absl::InfiniteFuture()) EndRecording();
  alarm_.Set(std::min(now + environment_.options.tick, now < end_ ? end_ : absl::InfiniteFuture()));
  if (writing_) {
    if (now >= stuck_) context_.TryCancel();  // OnWriteDone brings us back
    return;
  }
  if (!FillNext(Settled(now))) return;
  writing_ = true;
  stuck_ = now + environment_.options.stall;
  StartWrite(&chunk_);
}

bool TraceCall::Settled(absl::Time now) const {
  const TraceOptions& options = environment_.options;
  if (now >= recorded_ + options.settle) return true;
  // What happened just before the end may still be on its way to us.
  return now >= recorded_ + options.tick / 2 && recording_->settled();
}

// False when there is nothing to send.
bool TraceCall::FillNext(bool settled) {
  const TraceRecording::Batch batch = recording_->Take(environment_.options.chunk_rows);
  FillChunk(batch, *clock_, &chunk_);
  more_ = batch.more;
  if (settled && !more_) *chunk_.mutable_end() = last_;
  return chunk_.ByteSizeLong() > 0;
}

void TraceCall::Written() {
  writing_ = false;
  const bool complete = chunk_.has_end();
  chunk_.Clear();
  if (lost_) return End(Cancelled());
  if (complete) return End(absl::OkStatus());
  if (more_) Turn();
}

void TraceCall::Fail() {
  writing_ = false;
  End(Cancelled());
}

void TraceCall::Lose() {
  lost_ = true;
  if (!writing_) End(Cancelled());  // else the message comes back first
}

void TraceCall::EndRecording() {
  for (const ReplicaSnapshot& snapshot : environment_.metrics.Replicas())
    FillCounters(snapshot.stages, last_.add_replicas());
  recorded_ = absl::Now();
  last_.set_at(clock_->Nanoseconds(recorded_));
  recording_->SetEnd(recorded_);
}

void TraceCall::End(absl::Status status) {
  if (std::exchange(ended_, true)) return;
  alarm_.Cancel();
  environment_.metrics.traces().Remove(recording_);
  status_ = std::move(status);
  Finish(ToGrpc(status_));
}

}  // namespace penstock
