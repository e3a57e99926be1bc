#include "tests/support/fake_encode_executor.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shard/base/detached_status.h"

namespace penstock {

ExecutorInfo SmallEncoderInfo() {
  ExecutorInfo info;
  info.stages = 2;
  info.max_in_flight = 3;
  info.max_step_tokens = 64;
  info.max_sequences = 8;
  info.max_context = 48;
  info.vocab = 1 << 20;
  info.output_width = 3;
  return info;
}

std::vector<float> FakeEncode(const std::vector<int32_t>& tokens, const std::vector<int32_t>& types,
                              int32_t width) {
  uint64_t state = tokens.size();
  const auto add = [&state](int32_t value) {
    state = (state ^ static_cast<uint32_t>(value)) * 0x9e3779b97f4a7c15u;
    state ^= state >> 29;
  };
  for (size_t i = 0; i < tokens.size(); ++i) {
    add(tokens[i]);
    add(types.empty() ? 0 : types[i]);
  }
  std::vector<float> output;
  for (int32_t i = 0; i < width; ++i) {
    add(i);
    output.push_back(static_cast<float>(state >> 40) / static_cast<float>(1 << 23) - 1.0f);
  }
  return output;
}

void FakeEncodeExecutor::Expect(bool holds, const std::string& what) {
  if (!holds && violations_.size() < 20) violations_.push_back(what);
}

void FakeEncodeExecutor::Launch(StepBatch batch) {
  if (on_launch) on_launch(batch);
  MutexLock lock(&mutex_);
  CheckLaunch(batch);
  next_step_ = batch.step + 1;
  outstanding_.push_back(std::move(batch));
}

void FakeEncodeExecutor::CheckLaunch(const StepBatch& batch) {
  const std::string step = absl::StrCat("step ", batch.step, ": ");
  const auto seqs = static_cast<size_t>(batch.seqs());
  Expect(batch.kind == StepKind::kEncode, step + "no encode step");
  Expect(batch.step == next_step_ && batch.epoch == epoch_, step + "number or epoch");
  Expect(batch.plan_hash == HashPlan(batch), step + "plan hash");
  Expect(static_cast<int32_t>(outstanding_.size()) < info_.max_in_flight, step + "in flight");
  Expect(seqs > 0 && seqs <= static_cast<size_t>(info_.max_sequences), step + "sequences");
  Expect(static_cast<int32_t>(batch.tokens.size()) <= info_.max_step_tokens, step + "tokens");
  Expect(batch.slots.empty() && batch.blocks.empty() && batch.block_begin.empty() &&
             batch.assignments.empty() && batch.samples.empty(),
         step + "holds what only a generating step has");
  Expect(batch.positions.size() == batch.tokens.size(), step + "positions");
  Expect(batch.token_types.empty() || batch.token_types.size() == batch.tokens.size(),
         step + "token types");
  Expect(batch.seq_begin.size() == seqs + 1 && batch.seq_begin.front() == 0 &&
             batch.seq_begin.back() == static_cast<int32_t>(batch.tokens.size()),
         step + "seq_begin");
  for (size_t i = 0; i < seqs; ++i) CheckSequence(batch, i);
}

void FakeEncodeExecutor::CheckSequence(const StepBatch& batch, size_t sequence) {
  const int32_t begin = batch.seq_begin[sequence], end = batch.seq_begin[sequence + 1];
  Expect(end - begin == batch.context_lens[sequence], "a length is not its sequence's");
  Expect(end > begin && end - begin <= info_.max_context, "a sequence's length");
  for (int32_t row = begin; row < end; ++row)
    Expect(batch.positions[static_cast<size_t>(row)] == row - begin, "a position");
}

absl::StatusOr<StepResult> FakeEncodeExecutor::Wait() {
  StepBatch batch;
  {
    MutexLock lock(&mutex_);
    if (step_time_ > absl::ZeroDuration())
      mutex_.AwaitFor(
          [this] {
            mutex_.AssertHeld();
            return !failure_.ok();
          },
          absl::ToChronoNanoseconds(step_time_));
    mutex_.Await([this] {
      mutex_.AssertHeld();
      return !held_ || !failure_.ok();
    });
    if (!failure_.ok()) return failure_;
    Expect(!outstanding_.empty(), "Wait without a step outstanding");
    if (outstanding_.empty()) return absl::FailedPreconditionError("no step outstanding");
    batch = std::move(outstanding_.front());
    outstanding_.pop_front();
  }
  const absl::Status status = on_wait ? on_wait(batch) : absl::OkStatus();
  MutexLock lock(&mutex_);
  if (failure_.ok()) failure_ = status;
  if (!failure_.ok()) return failure_;
  return Run(batch);
}

StepResult FakeEncodeExecutor::Run(const StepBatch& batch) {
  StepResult result;
  result.step = batch.step;
  for (size_t i = 0; i < batch.context_lens.size(); ++i) {
    const auto part = [&](const std::vector<int32_t>& values) {
      if (values.empty()) return values;
      return std::vector<int32_t>(values.begin() + batch.seq_begin[i],
                                  values.begin() + batch.seq_begin[i + 1]);
    };
    std::vector<float> output =
        FakeEncode(part(batch.tokens), part(batch.token_types), info_.output_width);
    if (batch.tokens[static_cast<size_t>(batch.seq_begin[i])] == not_finite_)
      output.back() = std::numeric_limits<float>::quiet_NaN();
    result.outputs.insert(result.outputs.end(), output.begin(), output.end());
  }
  result.stages.resize(static_cast<size_t>(info_.stages));
  batch_sizes_.push_back(static_cast<int32_t>(batch.seqs()));
  return result;
}

void FakeEncodeExecutor::Abort(absl::Status why) {
  MutexLock lock(&mutex_);
  ++aborts_;
  if (failure_.ok()) failure_ = std::move(why);
}

absl::Status FakeEncodeExecutor::Restart() {
  MutexLock lock(&mutex_);
  ++restarts_;
  if (failing_restarts_ > 0) {
    --failing_restarts_;
    return absl::UnavailableError("the fake worker does not come back");
  }
  outstanding_.clear();
  failure_ = absl::OkStatus();
  next_step_ = 0;
  ++epoch_;
  return absl::OkStatus();
}

absl::Status FakeEncodeExecutor::status() const {
  MutexLock lock(&mutex_);
  return Detached(failure_);
}

uint64_t FakeEncodeExecutor::epoch() const {
  MutexLock lock(&mutex_);
  return epoch_;
}

PipelineStats FakeEncodeExecutor::Stats() const {
  PipelineStats stats;
  stats.stages.resize(static_cast<size_t>(info_.stages));
  return stats;
}

void FakeEncodeExecutor::SetHeld(bool held) {
  MutexLock lock(&mutex_);
  held_ = held;
}

void FakeEncodeExecutor::set_step_time(absl::Duration time) {
  MutexLock lock(&mutex_);
  step_time_ = time;
}

void FakeEncodeExecutor::set_failing_restarts(int count) {
  MutexLock lock(&mutex_);
  failing_restarts_ = count;
}

void FakeEncodeExecutor::set_not_finite(int32_t token) {
  MutexLock lock(&mutex_);
  not_finite_ = token;
}

std::vector<std::string> FakeEncodeExecutor::violations() const {
  MutexLock lock(&mutex_);
  return violations_;
}

std::vector<int32_t> FakeEncodeExecutor::batch_sizes() const {
  MutexLock lock(&mutex_);
  return batch_sizes_;
}

int FakeEncodeExecutor::restarts() const {
  MutexLock lock(&mutex_);
  return restarts_;
}

int FakeEncodeExecutor::aborts() const {
  MutexLock lock(&mutex_);
  return aborts_;
}

}  // namespace penstock
