#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/penstock/v1/admin.grpc.pb.h"
#include "server/metrics.h"
#include "server/task_pool.h"
#include "server/timer.h"
#include "server/trace_chunk.h"
#include "server/trace_hub.h"

namespace penstock {

struct TraceOptions {
  int64_t capacity = 1 << 20;    // rows kept for a slow reader: some tens of MiB
  int64_t chunk_rows = 1 << 15;  // of one message, far below the 4 MiB that clients accept
  int max_tracers = 8;           // at once
  absl::Duration tick = absl::Milliseconds(100);  // between messages
  absl::Duration settle = absl::Seconds(2);       // for steps that are in flight at the end
  absl::Duration stall = absl::Seconds(30);       // of one message; then the call is cancelled
};

// What a Trace call has from the server; outlives it.
struct TraceEnvironment {
  TraceOptions options;
  Metrics& metrics;
  Timer& timer;
  TaskPool& pool;  // of one thread
  std::string model;
};

// One Trace RPC. All its work is done in turns on a pool of one thread and so needs no lock:
// whatever happens posts a turn. Keeps itself alive until gRPC is done with it.
class TraceCall final : public grpc::ServerWriteReactor<v1::TraceChunk>,
                        public std::enable_shared_from_this<TraceCall> {
 public:
  // `context` lives until OnDone, as gRPC promises.
  static grpc::ServerWriteReactor<v1::TraceChunk>* Start(const TraceEnvironment& environment,
                                                         double seconds,
                                                         grpc::CallbackServerContext& context);

  // Use Start; public for std::make_shared.
  TraceCall(const TraceEnvironment& environment, double seconds,
            grpc::CallbackServerContext& context);

 private:
  // gRPC's side, on its threads.
  void OnWriteDone(bool ok) override { Post(ok ? &TraceCall::Written : &TraceCall::Fail); }
  void OnCancel() override { Post(&TraceCall::Lose); }
  void OnDone() override;

  void Post(void (TraceCall::*turn)());
  // The actor's side.
  void Begin();
  absl::Status Check() const;
  void Turn();     // the time has come for it
  void Written();  // the message has left
  void Fail();     // the message is lost
  void Lose();     // there is no client any more
  void EndRecording();
  bool Settled(absl::Time now) const;
  bool FillNext(bool settled);
  void End(absl::Status status);

  const TraceEnvironment& environment_;
  const double seconds_;
  grpc::CallbackServerContext& context_;
  const absl::Time arrival_;
  std::shared_ptr<TraceCall> self_;
  const std::shared_ptr<TraceRecording> recording_;
  Timer::Alarm alarm_;

  // The actor's own.
  std::optional<TraceClock> clock_;               // once recording
  absl::Time end_ = absl::InfiniteFuture();       // asked for
  absl::Time recorded_ = absl::InfiniteFuture();  // when recording ended
  v1::TraceEnd last_;                             // to be sent behind everything
  v1::TraceChunk chunk_;                          // gRPC's while writing
  bool writing_ = false;
  bool more_ = false;  // the recording holds more than one message
  bool lost_ = false;
  bool ended_ = false;
  absl::Time stuck_ = absl::InfiniteFuture();  // the message has taken too long by then
  absl::Status status_;                        // how the call ended
};

}  // namespace penstock
