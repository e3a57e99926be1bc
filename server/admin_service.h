#pragma once

#include <grpcpp/grpcpp.h>

#include <string>

#include "absl/time/time.h"
#include "proto/penstock/v1/admin.grpc.pb.h"
#include "server/call_gate.h"
#include "server/metrics.h"
#include "server/task_pool.h"
#include "server/timer.h"
#include "server/trace_call.h"

namespace penstock {

// What Status tells of the model, known before a byte of weights is loaded.
struct ModelSummary {
  std::string name;
  std::string kind;  // "generate", "embed" or "classify"
  std::string plan;  // for people: FormatPlan()
};

// penstock.v1.Admin, for those who run the server. Its calls do not enter the gate: they are
// answered while the server starts and drains, and a drain does not wait for them. Borrows the
// gate, the metrics and the timer.
class AdminService final : public v1::Admin::CallbackService {
 public:
  AdminService(CallGate& gate, Metrics& metrics, Timer& timer, const ModelSummary& model);

  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context,
                                   const v1::StatusRequest* request,
                                   v1::StatusResponse* response) override;
  grpc::ServerWriteReactor<v1::TraceChunk>* Trace(grpc::CallbackServerContext* context,
                                                  const v1::TraceRequest* request) override;

 private:
  CallGate& gate_;
  Metrics& metrics_;
  const ModelSummary model_;
  const absl::Time started_;
  TaskPool pool_;
  const TraceEnvironment tracing_;
};

}  // namespace penstock
