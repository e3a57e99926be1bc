#include "server/trace_chunk.h"

#include <algorithm>
#include <chrono>

#include "absl/time/clock.h"

namespace penstock {
namespace {

uint32_t Unsigned(int64_t value) { return static_cast<uint32_t>(std::max<int64_t>(value, 0)); }

void FillStep(const TracedStep& traced, const TraceClock& clock, v1::TraceStep* step) {
  const StepReport& report = traced.report;
  step->set_replica(Unsigned(traced.replica));
  step->set_step(report.step);
  step->set_epoch(report.epoch);
  step->set_launched(clock.Nanoseconds(report.launched));
  step->set_committed(clock.Nanoseconds(report.committed));
  if (traced.encode) {
    step->set_encode_tokens(Unsigned(report.prefill_tokens));
  } else {
    step->set_prefill_tokens(Unsigned(report.prefill_tokens));
    step->set_decode_tokens(Unsigned(report.decode_tokens));
  }
  for (const StageTiming& timing : report.stages) {
    v1::StageSpan* span = step->add_stages();
    span->set_begin(clock.FromSteady(timing.begin));
    span->set_end(clock.FromSteady(timing.end));
    span->set_transfer(timing.transfer);
    span->set_wait(timing.wait);
  }
  for (const StepShare& share : report.shares) {
    v1::StepSequence* sequence = step->add_sequences();
    sequence->set_id(share.sequence);
    sequence->set_tokens(Unsigned(share.tokens));
    sequence->set_context(Unsigned(share.context));
    sequence->set_prefill(share.prefill);
  }
}

}  // namespace

TraceClock::TraceClock(absl::Time begin) : begin_(absl::ToUnixNanos(begin)) {
  const int64_t steady = std::chrono::duration_cast<std::chrono::nanoseconds>(
                             std::chrono::steady_clock::now().time_since_epoch())
                             .count();
  steady_to_begin_ = absl::ToUnixNanos(absl::Now()) - begin_ - steady;
}

void FillChunk(const TraceRecording::Batch& batch, const TraceClock& clock, v1::TraceChunk* chunk) {
  for (const auto& step : batch.steps) FillStep(*step, clock, chunk->add_steps());
  for (const TracedState& told : batch.states) {
    v1::TraceState* state = chunk->add_states();
    state->set_replica(Unsigned(told.replica));
    state->set_at(clock.Nanoseconds(told.at));
    FillGauges(told.state, state->mutable_gauges());
  }
  chunk->set_lost_steps(static_cast<uint64_t>(batch.lost_steps));
  chunk->set_lost_states(static_cast<uint64_t>(batch.lost_states));
}

void FillGauges(const SchedulerState& state, v1::SchedulerGauges* gauges) {
  gauges->set_running(Unsigned(state.running));
  gauges->set_waiting(Unsigned(state.waiting));
  gauges->set_steps_in_flight(Unsigned(state.in_flight));
  gauges->set_kv_blocks_used(Unsigned(state.kv_blocks_used));
  gauges->set_kv_blocks_cached(Unsigned(state.kv_blocks_cached));
  gauges->set_kv_blocks_total(Unsigned(state.kv_blocks_total));
}

void FillCounters(const PipelineStats& stats, v1::PipelineCounters* counters) {
  counters->set_elapsed_seconds(stats.elapsed);
  for (const StageStats& stage : stats.stages) {
    v1::StageCounters* counted = counters->add_stages();
    counted->set_busy_seconds(stage.busy);
    counted->set_bubble_seconds(stats.active - stage.busy);
    counted->set_idle_seconds(stats.elapsed - stats.active);
    counted->set_transfer_seconds(stage.transfer);
  }
}

}  // namespace penstock
