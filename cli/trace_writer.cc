#include "cli/trace_writer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace penstock {
namespace {

constexpr int64_t kFirstLane = 1;     // thread ids
constexpr int64_t kFirstStage = 100;  // below the lanes
constexpr size_t kMostReplicas = 1024;

double Microseconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e3; }
double Seconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e9; }

std::string Phase(const v1::TraceStep& step) {
  if (step.encode_tokens() > 0) return "encode";
  if (step.prefill_tokens() == 0) return "decode";
  return step.decode_tokens() == 0 ? "prefill" : "mixed";
}

std::string Title(const v1::TraceStep& step) {
  if (step.encode_tokens() > 0) return absl::StrCat("encode ", step.encode_tokens());
  if (step.prefill_tokens() == 0) return absl::StrCat("decode ", step.decode_tokens());
  if (step.decode_tokens() == 0) return absl::StrCat("prefill ", step.prefill_tokens());
  return absl::StrCat("mixed ", step.decode_tokens(), "+", step.prefill_tokens());
}

std::string Percent(double part, double whole) {
  return absl::StrFormat("%.0f %%", whole > 0 ? 100 * part / whole : 0);
}

}  // namespace

TraceWriter::TraceWriter(std::ostream& out) : out_(out) {
  out_ << "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
}

void TraceWriter::Put(const Json& event) {
  out_ << (std::exchange(first_, false) ? "\n" : ",\n")
       << event.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void TraceWriter::NameProcess(size_t replica) {
  const std::string name = absl::StrCat("replica ", replica, ": ", begin_.model());
  Put({{"ph", "M"}, {"pid", replica + 1}, {"name", "process_name"}, {"args", {{"name", name}}}});
}

// Threads are shown in the order of their ids.
void TraceWriter::NameThread(size_t replica, int64_t thread, const std::string& name) {
  Json event = {{"ph", "M"},
                {"pid", replica + 1},
                {"tid", thread},
                {"name", "thread_name"},
                {"args", {{"name", name}}}};
  Put(event);
  event["name"] = "thread_sort_index";
  event["args"] = {{"sort_index", thread}};
  Put(event);
}

TraceWriter::Replica& TraceWriter::replica(uint32_t index) {
  const size_t at = std::min<size_t>(index, kMostReplicas - 1);
  if (replicas_.size() <= at) replicas_.resize(at + 1);
  return replicas_[at];
}

void TraceWriter::Add(const v1::TraceChunk& chunk) {
  if (chunk.has_begin()) {
    begin_ = chunk.begin();
    for (int i = 0; i < begin_.replicas_size(); ++i)
      replica(static_cast<uint32_t>(i))
          .totals.SetStages(static_cast<size_t>(begin_.replicas(i).stages_size()));
  }
  for (const v1::TraceStep& step : chunk.steps()) AddStep(step);
  for (const v1::TraceState& state : chunk.states()) AddState(state);
  lost_steps_ += static_cast<int64_t>(chunk.lost_steps());
  lost_states_ += static_cast<int64_t>(chunk.lost_states());
  if (!chunk.has_end()) return;
  last_ = chunk.end();
  end_ = last_.at();
}

void TraceWriter::AddStep(const v1::TraceStep& step) {
  Replica& owner = replica(step.replica());
  owner.totals.Add(step);
  auto lane = std::find_if(owner.lanes.begin(), owner.lanes.end(),
                           [&](int64_t free_at) { return free_at <= step.launched(); });
  if (lane == owner.lanes.end()) lane = owner.lanes.insert(lane, 0);
  *lane = step.committed();
  const int64_t begin = std::max<int64_t>(step.launched(), 0);
  Json event = {{"ph", "X"},
                {"pid", step.replica() + 1},
                {"tid", kFirstLane + (lane - owner.lanes.begin())},
                {"ts", Microseconds(begin)},
                {"dur", Microseconds(std::max<int64_t>(step.committed() - begin, 0))},
                {"name", Title(step)},
                {"cat", "step"},
                {"args", {{"step", step.step()}, {"epoch", step.epoch()}}}};
  if (step.launched() < 0) event["args"]["began_us"] = Microseconds(step.launched());
  Put(event);
  event["cat"] = Phase(step);
  AddStages(step, event);
}

// `event` is the step's slice from launch to commit.
void TraceWriter::AddStages(const v1::TraceStep& step, const Json& event) {
  Json ids = Json::array(), tokens = Json::array(), contexts = Json::array();
  for (const v1::StepSequence& sequence : step.sequences()) {
    ids.push_back(sequence.id());
    tokens.push_back(sequence.tokens());
    contexts.push_back(sequence.context());
  }
  for (int i = 0; i < step.stages_size(); ++i) {
    const v1::StageSpan& stage = step.stages(i);
    if (stage.end() <= 0) continue;
    const int64_t begin = std::max<int64_t>(stage.begin(), 0);
    Json slice = event;
    slice["tid"] = kFirstStage + i;
    slice["ts"] = Microseconds(begin);
    slice["dur"] = Microseconds(stage.end() - begin);
    Json& args = slice["args"] = {{"step", step.step()}, {"epoch", step.epoch()}};
    if (stage.begin() < 0) args["began_us"] = Microseconds(stage.begin());
    args["tokens"] = step.prefill_tokens() + step.decode_tokens() + step.encode_tokens();
    args["busy_us"] = Microseconds(stage.end() - stage.begin() - stage.transfer() - stage.wait());
    args["transfer_us"] = Microseconds(stage.transfer());
    args["wait_us"] = Microseconds(stage.wait());
    args["sequences"] = ids;
    args["sequence_tokens"] = tokens;
    args["contexts"] = contexts;
    Put(slice);
    if (i + 1 < step.stages_size()) AddArrow(step, i);
  }
}

// From the end of the stage's slice to the beginning of the next stage's.
void TraceWriter::AddArrow(const v1::TraceStep& step, int stage) {
  const int64_t arrival = std::max<int64_t>(step.stages(stage + 1).begin(), 0);
  // Inside of its slice, and not after the arrival: a thread may lose its core between handing on
  // and looking at the clock.
  const int64_t departure = std::min(step.stages(stage).end() - 1, arrival);
  Json event = {{"ph", "s"},
                {"pid", step.replica() + 1},
                {"tid", kFirstStage + stage},
                {"ts", Microseconds(std::max<int64_t>(departure, 0))},
                {"id", ++arrows_},
                {"name", "hand on"},
                {"cat", "arrow"}};
  Put(event);
  event["ph"] = "f";
  event["bp"] = "e";
  event["tid"] = kFirstStage + stage + 1;
  event["ts"] = Microseconds(arrival);
  Put(event);
}

void TraceWriter::PutCounter(const v1::TraceState& state, const char* name, Json values) {
  Put({{"ph", "C"},
       {"pid", state.replica() + 1},
       {"ts", Microseconds(std::max<int64_t>(state.at(), 0))},
       {"name", name},
       {"args", std::move(values)}});
}

void TraceWriter::AddState(const v1::TraceState& state) {
  Replica& owner = replica(state.replica());
  const v1::SchedulerGauges& now = state.gauges();
  const v1::SchedulerGauges& before = owner.gauges;
  const bool all = !std::exchange(owner.has_gauges, true);
  if (all || now.running() != before.running() || now.waiting() != before.waiting())
    PutCounter(state, "sequences", {{"running", now.running()}, {"waiting", now.waiting()}});
  if (all || now.steps_in_flight() != before.steps_in_flight())
    PutCounter(state, "steps in flight", {{"steps", now.steps_in_flight()}});
  if (all || now.kv_blocks_used() != before.kv_blocks_used() ||
      now.kv_blocks_cached() != before.kv_blocks_cached())
    PutCounter(state, "KV blocks",
               {{"used", now.kv_blocks_used()}, {"cached", now.kv_blocks_cached()}});
  owner.gauges = now;
}

int64_t TraceWriter::window() const {
  if (complete()) return end_;
  int64_t last = 0;
  for (const Replica& replica : replicas_) last = std::max(last, replica.totals.last_end());
  return last;
}

void TraceWriter::NameAll() {
  const double wall = Seconds(window());
  for (size_t i = 0; i < replicas_.size(); ++i) {
    NameProcess(i);
    for (size_t lane = 0; lane < replicas_[i].lanes.size(); ++lane)
      NameThread(i, kFirstLane + static_cast<int64_t>(lane), absl::StrCat("in flight ", lane + 1));
    int64_t thread = kFirstStage;
    for (const StageTotals& stage : replicas_[i].totals.Sum(window())) {
      NameThread(i, thread,
                 absl::StrCat("stage ", thread - kFirstStage, ": busy ", Percent(stage.busy, wall),
                              ", bubble ", Percent(stage.bubble, wall), ", idle ",
                              Percent(stage.idle, wall)));
      ++thread;
    }
  }
}

// What the executor counted in the same window goes beside what the slices add up to.
TraceWriter::Json TraceWriter::StageJson(size_t replica, size_t stage,
                                         const StageTotals& totals) const {
  Json json = {{"stage", stage},
               {"steps", totals.steps},
               {"busy_seconds", totals.busy},
               {"bubble_seconds", totals.bubble},
               {"idle_seconds", totals.idle},
               {"transfer_seconds", totals.transfer},
               {"wait_seconds", totals.wait}};
  const auto r = static_cast<int>(replica), s = static_cast<int>(stage);
  if (r >= begin_.replicas_size() || r >= last_.replicas_size()) return json;
  const v1::PipelineCounters &before = begin_.replicas(r), &after = last_.replicas(r);
  if (s >= before.stages_size() || s >= after.stages_size()) return json;
  const v1::StageCounters &first = before.stages(s), &last = after.stages(s);
  json["counted"] = {{"busy_seconds", last.busy_seconds() - first.busy_seconds()},
                     {"bubble_seconds", last.bubble_seconds() - first.bubble_seconds()},
                     {"idle_seconds", last.idle_seconds() - first.idle_seconds()},
                     {"transfer_seconds", last.transfer_seconds() - first.transfer_seconds()}};
  return json;
}

TraceWriter::Json TraceWriter::Totals() const {
  Json replicas = Json::array();
  for (size_t i = 0; i < replicas_.size(); ++i) {
    Json stages = Json::array();
    for (const StageTotals& totals : replicas_[i].totals.Sum(window()))
      stages.push_back(StageJson(i, stages.size(), totals));
    replicas.push_back(
        {{"replica", i}, {"steps", replicas_[i].totals.steps()}, {"stages", std::move(stages)}});
  }
  return {{"model", begin_.model()},
          {"penstock", begin_.version()},
          {"began_unix_seconds", Seconds(begin_.unix_nanoseconds())},
          {"wall_seconds", Seconds(window())},
          {"complete", complete()},
          {"lost_steps", lost_steps_},
          {"lost_states", lost_states_},
          {"replicas", std::move(replicas)}};
}

void TraceWriter::Finish() {
  NameAll();
  out_ << "\n], \"otherData\": " << Totals().dump(1, ' ', false, Json::error_handler_t::replace)
       << "}\n";
}

}  // namespace penstock
