#include "cli/trace_writer.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace penstock {
namespace {

constexpr int64_t kMillisecond = 1000000;

// Two stages of 10 ms each; stage 1 transfers for 1 ms of it. A step is launched every 10 ms.
v1::TraceStep Step(int64_t number, int64_t launched) {
  v1::TraceStep step;
  step.set_step(number);
  step.set_epoch(1);
  step.set_launched(launched);
  step.set_committed(launched + 21 * kMillisecond);
  step.set_decode_tokens(2);
  for (int64_t stage = 0; stage < 2; ++stage) {
    v1::StageSpan* span = step.add_stages();
    span->set_begin(launched + stage * 10 * kMillisecond);
    span->set_end(launched + (stage + 1) * 10 * kMillisecond);
    span->set_transfer(stage * kMillisecond);
  }
  for (uint64_t id : {3, 4}) {
    v1::StepSequence* sequence = step.add_sequences();
    sequence->set_id(id);
    sequence->set_tokens(1);
    sequence->set_context(static_cast<uint32_t>(100 + number));
  }
  return step;
}

void SetCounters(double seconds, v1::PipelineCounters* counters) {
  counters->set_elapsed_seconds(seconds);
  for (int stage = 0; stage < 2; ++stage) counters->add_stages()->set_busy_seconds(seconds / 2);
}

v1::TraceChunk Begin() {
  v1::TraceChunk chunk;
  chunk.mutable_begin()->set_model("a \"model\"\n");
  SetCounters(10, chunk.mutable_begin()->add_replicas());
  return chunk;
}

v1::TraceChunk End(int64_t at) {
  v1::TraceChunk chunk;
  chunk.mutable_end()->set_at(at);
  SetCounters(11, chunk.mutable_end()->add_replicas());
  return chunk;
}

class Trace {
 public:
  explicit Trace(const std::vector<v1::TraceChunk>& chunks) {
    std::ostringstream out;
    TraceWriter writer(out);
    for (const v1::TraceChunk& chunk : chunks) writer.Add(chunk);
    writer.Finish();
    json = nlohmann::json::parse(out.str());
  }
  std::vector<nlohmann::json> Events(const std::string& phase) const {
    std::vector<nlohmann::json> found;
    for (const auto& event : json.at("traceEvents"))
      if (event.at("ph") == phase) found.push_back(event);
    return found;
  }
  const nlohmann::json& stage(size_t index) const {
    return json.at("otherData").at("replicas").at(0).at("stages").at(index);
  }
  nlohmann::json json;
};

// Of every thread: whether no slice begins before the one before has ended.
bool AnyOverlap(const Trace& trace) {
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> threads;
  for (const auto& event : trace.Events("X"))
    threads[{event.at("pid"), event.at("tid")}].emplace_back(event.at("ts"), event.at("dur"));
  for (auto& [thread, slices] : threads) {
    std::sort(slices.begin(), slices.end());
    for (size_t i = 1; i < slices.size(); ++i)
      if (slices[i].first < slices[i - 1].first + slices[i - 1].second - 1e-4) return true;
  }
  return false;
}

TEST(TraceWriterTest, AnEmptyRecordingIsAValidDocumentOfIdleStages) {
  const Trace trace({Begin(), End(1000 * kMillisecond)});
  EXPECT_TRUE(trace.Events("X").empty());
  EXPECT_EQ(trace.json["otherData"]["wall_seconds"], 1.0);
  EXPECT_EQ(trace.json["otherData"]["complete"], true);
  EXPECT_EQ(trace.json["otherData"]["model"], "a \"model\"\n");
  for (size_t stage : {0, 1}) {
    EXPECT_EQ(trace.stage(stage)["idle_seconds"], 1.0);
    EXPECT_EQ(trace.stage(stage)["busy_seconds"], 0.0);
    EXPECT_EQ(trace.stage(stage)["bubble_seconds"], 0.0);
    EXPECT_EQ(trace.stage(stage)["counted"]["busy_seconds"], 0.5);
  }
}

TEST(TraceWriterTest, StagesDoNotOverlapAndAddUpToTheWindow) {
  v1::TraceChunk steps;
  for (int64_t i = 0; i < 10; ++i) *steps.add_steps() = Step(i, i * 10 * kMillisecond);
  const Trace trace({Begin(), steps, End(200 * kMillisecond)});
  EXPECT_FALSE(AnyOverlap(trace));
  EXPECT_EQ(trace.Events("X").size(), 10u * 3);
  EXPECT_EQ(trace.Events("s").size(), 10u);
  EXPECT_EQ(trace.Events("f").size(), 10u);
  // In flight from 0 to 110 ms; stage 0 computes for 100, stage 1 for 90 of them.
  EXPECT_NEAR(trace.stage(0)["busy_seconds"], 0.100, 1e-9);
  EXPECT_NEAR(trace.stage(0)["bubble_seconds"], 0.010, 1e-9);
  EXPECT_NEAR(trace.stage(0)["idle_seconds"], 0.090, 1e-9);
  EXPECT_NEAR(trace.stage(1)["busy_seconds"], 0.090, 1e-9);
  EXPECT_NEAR(trace.stage(1)["bubble_seconds"], 0.020, 1e-9);
  EXPECT_NEAR(trace.stage(1)["transfer_seconds"], 0.010, 1e-9);
  EXPECT_EQ(trace.stage(1)["steps"], 10);
}

TEST(TraceWriterTest, OnlyWhatIsInsideOfTheWindowCounts) {
  v1::TraceChunk steps;
  *steps.add_steps() = Step(1, -5 * kMillisecond);
  *steps.add_steps() = Step(2, 15 * kMillisecond);
  const Trace trace({Begin(), steps, End(20 * kMillisecond)});
  EXPECT_NEAR(trace.stage(0)["busy_seconds"], 0.005 + 0.005, 1e-9);
  EXPECT_NEAR(trace.stage(1)["busy_seconds"], 0.009, 1e-9);
  EXPECT_NEAR(trace.stage(0)["idle_seconds"], 0, 1e-9);
  for (const auto& event : trace.Events("X")) {
    EXPECT_GE(event["ts"], 0) << event;
    EXPECT_EQ(event["args"].contains("began_us"), event["args"]["step"] == 1 && event["ts"] == 0.0)
        << event;
  }
  EXPECT_FALSE(AnyOverlap(trace));
}

TEST(TraceWriterTest, ASliceTellsItsStep) {
  v1::TraceChunk steps;
  *steps.add_steps() = Step(1, 0);
  v1::TraceStep mixed = Step(2, 10 * kMillisecond);
  mixed.set_prefill_tokens(128);
  *steps.add_steps() = mixed;
  v1::TraceStep prefill = mixed;
  prefill.set_decode_tokens(0);
  *steps.add_steps() = prefill;
  v1::TraceStep encode = Step(3, 30 * kMillisecond);
  encode.set_decode_tokens(0);
  encode.set_encode_tokens(12);
  *steps.add_steps() = encode;
  const Trace trace({Begin(), steps, End(100 * kMillisecond)});
  std::vector<std::string> names;
  nlohmann::json first;
  for (const auto& event : trace.Events("X")) {
    if (event["tid"] != 101) continue;
    if (names.empty()) first = event;
    names.push_back(event["name"]);
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"decode 2", "mixed 2+128", "prefill 128", "encode 12"}));
  EXPECT_EQ(first["cat"], "decode");
  EXPECT_EQ(first["ts"], 10000.0);
  EXPECT_EQ(first["dur"], 10000.0);
  EXPECT_EQ(first["args"]["step"], 1);
  EXPECT_EQ(first["args"]["busy_us"], 9000.0);
  EXPECT_EQ(first["args"]["transfer_us"], 1000.0);
  EXPECT_EQ(first["args"]["sequences"], (nlohmann::json{3, 4}));
  EXPECT_EQ(first["args"]["contexts"], (nlohmann::json{101, 101}));
}

TEST(TraceWriterTest, CountersAreWrittenWhenTheyChange) {
  v1::TraceChunk states;
  for (uint32_t running : {1, 1, 2}) {
    v1::TraceState* state = states.add_states();
    state->set_at(running * kMillisecond);
    state->mutable_gauges()->set_running(running);
  }
  const Trace trace({Begin(), states, End(100 * kMillisecond)});
  const auto counters = trace.Events("C");
  ASSERT_EQ(counters.size(), 3u + 1);  // each once, then what changed
  EXPECT_EQ(counters[3]["name"], "sequences");
  EXPECT_EQ(counters[3]["args"]["running"], 2);
}

TEST(TraceWriterTest, ARecordingThatBreaksOffIsValidAndSaysSo) {
  v1::TraceChunk steps;
  *steps.add_steps() = Step(1, 0);
  steps.set_lost_steps(4);
  const Trace trace({Begin(), steps});
  EXPECT_EQ(trace.json["otherData"]["complete"], false);
  EXPECT_EQ(trace.json["otherData"]["lost_steps"], 4);
  EXPECT_NEAR(trace.json["otherData"]["wall_seconds"], 0.020, 1e-9);
}

}  // namespace
}  // namespace penstock
