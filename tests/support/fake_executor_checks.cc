// The contract of StepBatch and of Executor::Launch, as FakeExecutor checks it.

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/support/fake_executor.h"

namespace penstock {

void FakeExecutor::CheckLaunch(const StepBatch& batch) {
  const std::string step = absl::StrCat("step ", batch.step, ": ");
  Expect(batch.step == next_launch_, absl::StrCat(step, "expected ", next_launch_));
  Expect(batch.epoch == epoch_, step + "wrong epoch");
  Expect(batch.plan_hash == HashPlan(batch), step + "wrong plan hash");
  Expect(static_cast<int32_t>(outstanding_.size()) < info_.max_in_flight,
         step + "too many steps in flight");
  CheckShape(batch);
  for (size_t i = 0; i < batch.context_lens.size(); ++i) CheckSequence(batch, i);
  CheckBlockOwners(batch);
}

void FakeExecutor::CheckShape(const StepBatch& batch) {
  const size_t sequences = batch.context_lens.size();
  const std::string step = absl::StrCat("step ", batch.step, ": ");
  Expect(!batch.tokens.empty(), step + "no tokens");
  Expect(batch.tokens.size() <= static_cast<size_t>(info_.max_step_tokens),
         step + "over the token budget");
  Expect(sequences <= static_cast<size_t>(info_.max_sequences), step + "too many sequences");
  Expect(batch.positions.size() == batch.tokens.size() && batch.slots.size() == batch.tokens.size(),
         step + "rows of unequal length");
  Expect(batch.seq_begin.size() == sequences + 1 && batch.block_begin.size() == sequences + 1,
         step + "offsets of wrong length");
  Expect(batch.seq_begin.back() == static_cast<int32_t>(batch.tokens.size()) &&
             batch.block_begin.back() == static_cast<int32_t>(batch.blocks.size()),
         step + "offsets do not end at the end");
  for (int32_t token : batch.tokens)
    Expect(token >= 0 && token < info_.vocab, step + "a token outside the vocabulary");
  std::set<int32_t> slots;
  for (const SampleRow& row : batch.samples)
    Expect(slots.insert(row.slot).second, step + "a slot samples twice");
  for (const SlotAssignment& assignment : batch.assignments)
    Expect(assignment.slot >= 0 && assignment.slot < info_.max_sequences,
           step + "a slot that does not exist");
}

void FakeExecutor::CheckSequence(const StepBatch& batch, size_t sequence) {
  const std::string step = absl::StrCat("step ", batch.step, ": ");
  const int32_t begin = batch.seq_begin[sequence], end = batch.seq_begin[sequence + 1];
  const int32_t first_block = batch.block_begin[sequence];
  const int32_t blocks = batch.block_begin[sequence + 1] - first_block;
  const int32_t context = batch.context_lens[sequence];
  const int32_t size = info_.kv_block_size;
  Expect(end > begin, step + "a sequence without tokens");
  Expect(context <= info_.max_context, step + "a sequence beyond the context");
  Expect(blocks == (context + size - 1) / size, step + "blocks do not match the context");
  for (int32_t row = begin; row < end; ++row) {
    const int32_t position = batch.positions[static_cast<size_t>(row)];
    Expect(position == context - (end - row), step + "positions do not end at the context");
    const int32_t block = batch.blocks[static_cast<size_t>(first_block + position / size)];
    Expect(batch.slots[static_cast<size_t>(row)] == block * size + position % size,
           step + "a KV slot outside its block");
  }
}

// A block that a step writes is named by nobody else in it; and a step in flight that names it must
// have written it too, as the same sequence does while it fills its last block. (Full blocks may be
// read by many.)
void FakeExecutor::CheckBlockOwners(const StepBatch& batch) {
  const auto written_from = [this](const StepBatch& step, size_t i) {
    const int32_t rows = step.seq_begin[i + 1] - step.seq_begin[i];
    return (step.context_lens[i] - rows) / info_.kv_block_size;  // index of its first such block
  };
  std::map<int32_t, size_t> writers;  // block to sequence
  for (size_t i = 0; i < batch.context_lens.size(); ++i)
    for (int32_t b = batch.block_begin[i] + written_from(batch, i); b < batch.block_begin[i + 1];
         ++b)
      Expect(writers.try_emplace(batch.blocks[static_cast<size_t>(b)], i).second,
             absl::StrCat("step ", batch.step, ": a block is written by two sequences"));
  const auto check = [&](const StepBatch& named) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (size_t i = 0; i < named.context_lens.size(); ++i) {
      for (int32_t b = named.block_begin[i]; b < named.block_begin[i + 1]; ++b) {
        const int32_t block = named.blocks[static_cast<size_t>(b)];
        Expect(block >= 0 && block < info_.kv_blocks, "a block out of range");
        const auto writer = writers.find(block);
        if (writer == writers.end()) continue;
        const bool same = &named == &batch ? writer->second == i
                                           : b - named.block_begin[i] >= written_from(named, i);
        Expect(same, absl::StrCat("step ", batch.step, ": block ", block,
                                  " is written while others read it"));
      }
    }
  };
  for (const StepBatch& step : outstanding_) check(step);
  check(batch);
}

}  // namespace penstock
