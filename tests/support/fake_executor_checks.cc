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

// A sequence is known by its first block: no block may be named by two at the same time. (Until
// sequences share prefixes.)
void FakeExecutor::CheckBlockOwners(const StepBatch& batch) {
  std::map<int32_t, int32_t> owners;  // block to first block
  const auto check = [&](const StepBatch& named) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (size_t i = 0; i < named.context_lens.size(); ++i) {
      const auto begin = static_cast<size_t>(named.block_begin[i]);
      for (auto b = begin; b < static_cast<size_t>(named.block_begin[i + 1]); ++b) {
        Expect(named.blocks[b] >= 0 && named.blocks[b] < info_.kv_blocks, "a block out of range");
        const int32_t owner =
            owners.try_emplace(named.blocks[b], named.blocks[begin]).first->second;
        Expect(owner == named.blocks[begin],
               absl::StrCat("step ", batch.step, ": block ", named.blocks[b], " of two sequences"));
      }
    }
  };
  for (const StepBatch& step : outstanding_) check(step);
  check(batch);
  std::set<int32_t> first_blocks;
  for (size_t i = 0; i < batch.context_lens.size(); ++i)
    Expect(first_blocks.insert(batch.blocks[static_cast<size_t>(batch.block_begin[i])]).second,
           absl::StrCat("step ", batch.step, ": a sequence twice"));
}

}  // namespace penstock
