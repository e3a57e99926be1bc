#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "cli/trace_totals.h"
#include "nlohmann/json.hpp"
#include "proto/penstock/v1/admin.pb.h"

namespace penstock {

// Writes what the Trace RPC streams as Chrome trace JSON ("Trace Event Format"), which Perfetto and
// chrome://tracing show:
//   a process per replica;
//   in it a thread per stage, with a slice per step ("decode 16", "prefill 256", "mixed 8+128",
//   "encode 40": tokens), whose arguments tell step, sequences and where the time went, and an
//   arrow to the same step's slice on the next stage; threads "in flight", with each step from
//   launch to commit on the first that is free; counters of sequences, steps in flight and KV
//   blocks.
// Times are microseconds since the recording began; a slice that began before begins at 0, its
// arguments telling when it did. "otherData" holds the totals of each stage.
class TraceWriter {
 public:
  explicit TraceWriter(std::ostream& out);

  void Add(const v1::TraceChunk& chunk);
  // Ends the document; without the recording's end in a chunk, what came before counts.
  void Finish();

  struct Replica {
    TraceTotals totals;
    std::vector<int64_t> lanes;  // each one's last commit
    v1::SchedulerGauges gauges;  // last written
    bool has_gauges = false;
  };
  bool complete() const { return end_ >= 0; }
  int64_t window() const;  // nanoseconds
  int64_t lost_steps() const { return lost_steps_; }
  const std::vector<Replica>& replicas() const { return replicas_; }

 private:
  using Json = nlohmann::ordered_json;

  void Put(const Json& event);
  void NameProcess(size_t replica);
  void NameThread(size_t replica, int64_t thread, const std::string& name);
  void NameAll();  // once the totals are known
  void AddStep(const v1::TraceStep& step);
  void AddStages(const v1::TraceStep& step, const Json& event);
  void AddArrow(const v1::TraceStep& step, int stage);
  void AddState(const v1::TraceState& state);
  void PutCounter(const v1::TraceState& state, const char* name, Json values);
  Json Totals() const;
  Json StageJson(size_t replica, size_t stage, const StageTotals& totals) const;
  Replica& replica(uint32_t index);

  std::ostream& out_;
  bool first_ = true;
  v1::TraceBegin begin_;
  v1::TraceEnd last_;
  int64_t end_ = -1;
  int64_t lost_steps_ = 0, lost_states_ = 0;
  int64_t arrows_ = 0;
  std::vector<Replica> replicas_;
};

}  // namespace penstock
