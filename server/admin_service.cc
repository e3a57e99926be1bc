#include "server/admin_service.h"

#include "absl/time/clock.h"
#include "server/trace_chunk.h"

namespace penstock {
namespace {

v1::ServerState ToProto(CallGate::State state) {
  switch (state) {
    case CallGate::State::kStarting: return v1::SERVER_STATE_STARTING;
    case CallGate::State::kServing: return v1::SERVER_STATE_SERVING;
    case CallGate::State::kDraining: return v1::SERVER_STATE_DRAINING;
  }
  return v1::SERVER_STATE_UNSPECIFIED;
}

void FillReplica(uint32_t index, const ReplicaSnapshot& snapshot, absl::Time now,
                 v1::ReplicaStatus* replica) {
  replica->set_replica(index);
  replica->set_healthy(snapshot.state.healthy);
  FillGauges(snapshot.state, replica->mutable_gauges());
  FillCounters(snapshot.stages, replica->mutable_pipeline());
  if (snapshot.state.last_progress != absl::InfinitePast())
    replica->set_seconds_since_progress(absl::ToDoubleSeconds(now - snapshot.state.last_progress));
}

}  // namespace

AdminService::AdminService(CallGate& gate, Metrics& metrics, Timer& timer,
                           const ModelSummary& model)
    : gate_(gate),
      metrics_(metrics),
      model_(model),
      started_(absl::Now()),
      pool_(1, "admin"),
      tracing_{{}, metrics, timer, pool_, model.name} {}

grpc::ServerUnaryReactor* AdminService::Status(grpc::CallbackServerContext* context,
                                               const v1::StatusRequest* /*request*/,
                                               v1::StatusResponse* response) {
  const absl::Time now = absl::Now();
  response->set_version(PENSTOCK_VERSION);
  response->set_state(ToProto(gate_.state()));
  response->set_uptime_seconds(absl::ToDoubleSeconds(now - started_));
  response->set_model(model_.name);
  response->set_kind(model_.kind);
  response->set_plan(model_.plan);
  for (const ReplicaSnapshot& snapshot : metrics_.Replicas()) {
    const auto index = static_cast<uint32_t>(response->replicas_size());  // before it grows
    FillReplica(index, snapshot, now, response->add_replicas());
  }
  response->set_calls(static_cast<uint32_t>(gate_.inside()));
  response->set_tracers(static_cast<uint32_t>(metrics_.traces().tracers()));
  metrics_.OnCall("Status", absl::StatusCode::kOk, absl::Now() - now);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerWriteReactor<v1::TraceChunk>* AdminService::Trace(grpc::CallbackServerContext* context,
                                                              const v1::TraceRequest* request) {
  return TraceCall::Start(tracing_, request->seconds(), *context);
}

}  // namespace penstock
