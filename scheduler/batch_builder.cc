#include "scheduler/batch_builder.h"

namespace penstock {
namespace {

void AddRows(const Sequence& sequence, int32_t count, int32_t block_size, StepBatch& batch) {
  for (int32_t i = sequence.computed; i < sequence.computed + count; ++i) {
    const int32_t block = sequence.blocks[static_cast<size_t>(i / block_size)];
    batch.tokens.push_back(sequence.tokens[static_cast<size_t>(i)]);
    batch.positions.push_back(i);
    batch.slots.push_back(block * block_size + i % block_size);
  }
}

void AddBlocks(const Sequence& sequence, int32_t context, int32_t block_size, StepBatch& batch) {
  const int32_t count = (context + block_size - 1) / block_size;  // later ones are not written yet
  batch.blocks.insert(batch.blocks.end(), sequence.blocks.begin(), sequence.blocks.begin() + count);
}

SampleRow RowToSample(const Sequence& sequence, const StepBatch& batch) {
  return {.row = static_cast<int32_t>(batch.tokens.size()) - 1,
          .slot = sequence.slot,
          .position = static_cast<int32_t>(sequence.tokens.size()),
          .mask_stops = sequence.generated() < sequence.request.min_tokens};
}

void ReserveArrays(const StepPlan& plan, StepBatch& batch) {
  const auto tokens = static_cast<size_t>(plan.decode_tokens + plan.prefill_tokens);
  for (auto* rows : {&batch.tokens, &batch.positions, &batch.slots}) rows->reserve(tokens);
  for (auto* sequences : {&batch.seq_begin, &batch.block_begin, &batch.context_lens})
    sequences->reserve(plan.run.size() + 1);
  size_t blocks = 0;
  for (const PlannedSequence& planned : plan.run) blocks += planned.sequence->blocks.size();
  batch.blocks.reserve(blocks);
  batch.samples.reserve(plan.run.size());
}

}  // namespace

StepBatch BuildBatch(const StepPlan& plan, int32_t kv_block_size, int64_t step, uint64_t epoch) {
  StepBatch batch;
  batch.step = step;
  batch.epoch = epoch;
  ReserveArrays(plan, batch);
  for (const auto& [sequence, count, samples, prefill] : plan.run) {
    const int32_t context = sequence->computed + count;
    batch.seq_begin.push_back(static_cast<int32_t>(batch.tokens.size()));
    batch.block_begin.push_back(static_cast<int32_t>(batch.blocks.size()));
    batch.context_lens.push_back(context);
    AddRows(*sequence, count, kv_block_size, batch);
    AddBlocks(*sequence, context, kv_block_size, batch);
    if (!sequence->slot_assigned) batch.assignments.push_back(sequence->Assignment());
    if (samples) batch.samples.push_back(RowToSample(*sequence, batch));
  }
  batch.seq_begin.push_back(static_cast<int32_t>(batch.tokens.size()));
  batch.block_begin.push_back(static_cast<int32_t>(batch.blocks.size()));
  batch.plan_hash = HashPlan(batch);
  return batch;
}

}  // namespace penstock
