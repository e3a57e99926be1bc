#include "tests/support/fake_executor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "shard/base/detached_status.h"

namespace penstock {

ExecutorInfo SmallExecutorInfo() {
  return {.stages = 2,
          .max_in_flight = 3,
          .kv_blocks = 64,
          .kv_block_size = 4,
          .max_step_tokens = 32,
          .max_sequences = 8,
          .max_context = 128,
          .vocab = 1000};
}

FakeExecutor::FakeExecutor(const ExecutorInfo& info)
    : info_(info),
      cache_(static_cast<size_t>(info.kv_blocks) * static_cast<size_t>(info.kv_block_size)),
      slots_(static_cast<size_t>(info.max_sequences)) {}

void FakeExecutor::Expect(bool holds, const std::string& what) {
  if (!holds && violations_.size() < 20) violations_.push_back(what);
}

void FakeExecutor::Launch(StepBatch batch) {
  MutexLock lock(&mutex_);
  CheckLaunch(batch);
  next_launch_ = batch.step + 1;
  outstanding_.push_back(std::move(batch));
}

absl::StatusOr<StepResult> FakeExecutor::Wait() {
  MutexLock lock(&mutex_);
  const auto failed = [this] {
    mutex_.AssertHeld();
    return !failure_.ok();
  };
  const auto resumed = [this] {
    mutex_.AssertHeld();
    return !held_ || !failure_.ok();
  };
  if (step_time_ > absl::ZeroDuration()) mutex_.AwaitFor(failed, ToChronoNanoseconds(step_time_));
  mutex_.Await(resumed);
  if (!failure_.ok()) return failure_;
  Expect(!outstanding_.empty(), "Wait without a step outstanding");
  if (outstanding_.empty()) return absl::FailedPreconditionError("no step outstanding");
  if (fault_) failure_ = fault_(outstanding_.front());
  if (!failure_.ok()) return failure_;
  StepResult result = Run(outstanding_.front());
  outstanding_.pop_front();
  ++steps_run_;
  return result;
}

void FakeExecutor::Abort(absl::Status why) {
  MutexLock lock(&mutex_);
  ++aborts_;
  if (failure_.ok()) failure_ = std::move(why);
}

absl::Status FakeExecutor::Restart() {
  MutexLock lock(&mutex_);
  ++restarts_;
  if (failing_restarts_ > 0) {
    --failing_restarts_;
    return absl::UnavailableError("the fake worker does not come back");
  }
  outstanding_.clear();
  cache_.assign(cache_.size(), KvEntry{});
  slots_.assign(slots_.size(), Slot{});
  failure_ = absl::OkStatus();
  next_launch_ = 0;
  ++epoch_;
  return absl::OkStatus();
}

absl::Status FakeExecutor::status() const {
  MutexLock lock(&mutex_);
  return Detached(failure_);
}

uint64_t FakeExecutor::epoch() const {
  MutexLock lock(&mutex_);
  return epoch_;
}

PipelineStats FakeExecutor::Stats() const {
  PipelineStats stats;
  stats.stages.resize(static_cast<size_t>(info_.stages));
  return stats;
}

void FakeExecutor::Hold() {
  MutexLock lock(&mutex_);
  held_ = true;
}

void FakeExecutor::Release() {
  MutexLock lock(&mutex_);
  held_ = false;
}

std::vector<std::string> FakeExecutor::violations() const {
  MutexLock lock(&mutex_);
  return violations_;
}

int64_t FakeExecutor::steps_run() const {
  MutexLock lock(&mutex_);
  return steps_run_;
}

int FakeExecutor::restarts() const {
  MutexLock lock(&mutex_);
  return restarts_;
}

int FakeExecutor::aborts() const {
  MutexLock lock(&mutex_);
  return aborts_;
}

StepResult FakeExecutor::Run(const StepBatch& batch) {
  ApplyAssignments(batch);
  for (size_t row = 0; row < batch.tokens.size(); ++row)
    cache_[static_cast<size_t>(batch.slots[row])] = {batch.tokens[row], batch.positions[row]};
  StepResult result;
  result.step = batch.step;
  size_t next_sample = 0;
  for (size_t sequence = 0; sequence < batch.context_lens.size(); ++sequence) {
    const std::vector<int32_t> context = ReadContext(batch, sequence);
    if (next_sample == batch.samples.size()) continue;
    const SampleRow& row = batch.samples[next_sample];
    if (row.row >= batch.seq_begin[sequence + 1]) continue;
    Expect(row.row == batch.seq_begin[sequence + 1] - 1, "a sample row is not its sequence's last");
    Expect(row.position == batch.context_lens[sequence], "a sample's position is not the next one");
    result.samples.push_back(Sample(row, context));
    ++next_sample;
  }
  Expect(next_sample == batch.samples.size(), "sample rows are not ascending");
  return result;
}

void FakeExecutor::ApplyAssignments(const StepBatch& batch) {
  for (const SlotAssignment& assignment : batch.assignments) {
    Slot& slot = slots_[static_cast<size_t>(assignment.slot)];
    const bool penalties = assignment.params.has_penalties();
    Expect(penalties != assignment.prompt.empty(), "prompt is sent for penalties, and only then");
    slot = {.assigned = true, .assignment = assignment, .drawn = assignment.generated};
  }
}

std::vector<int32_t> FakeExecutor::ReadContext(const StepBatch& batch, size_t sequence) {
  std::vector<int32_t> context;
  const int32_t first_block = batch.block_begin[sequence];
  for (int32_t i = 0; i < batch.context_lens[sequence]; ++i) {
    const int32_t block = batch.blocks[static_cast<size_t>(first_block + i / info_.kv_block_size)];
    const KvEntry& entry =
        cache_[static_cast<size_t>(block * info_.kv_block_size + i % info_.kv_block_size)];
    Expect(entry.position == i, absl::StrCat("step ", batch.step, " reads position ", i,
                                             " from a slot that holds ", entry.position));
    context.push_back(entry.token);
  }
  return context;
}

SampledToken FakeExecutor::Sample(const SampleRow& row, const std::vector<int32_t>& context) {
  Slot& slot = slots_[static_cast<size_t>(row.slot)];
  Expect(slot.assigned, absl::StrCat("slot ", row.slot, " samples without an assignment"));
  if (not_finite_ && slot.assignment.params.seed == not_finite_->first &&
      row.position >= not_finite_->second)
    return {.token = kNoToken, .logprob = 0, .top = {}};
  std::vector<int32_t> counted = slot.assignment.prompt;
  counted.insert(counted.end(), slot.drawn.begin(), slot.drawn.end());
  SampledToken sampled;
  sampled.token = FakeNextToken(context, slot.assignment.params, slot.assignment.sample_index,
                                counted, row.mask_stops, info_.vocab);
  if (slot.assignment.params.logprobs >= 0) sampled.logprob = -1.0f;
  slot.drawn.push_back(sampled.token);
  return sampled;
}

}  // namespace penstock
