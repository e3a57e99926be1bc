#include "shard/api/step.h"

#include <bit>

namespace penstock {
namespace {

// FNV-1a over 64-bit words, finalized per word by a multiply-xorshift (splitmix64's mixer).
class Hash {
 public:
  void Add(uint64_t word) {
    state_ = (state_ ^ word) * 0x9e3779b97f4a7c15u;
    state_ ^= state_ >> 29;
  }
  void Add(const std::vector<int32_t>& values) {
    Add(values.size());
    for (int32_t value : values) Add(static_cast<uint32_t>(value));
  }
  uint64_t state() const { return state_; }

 private:
  uint64_t state_ = 0xcbf29ce484222325u;
};

}  // namespace

uint64_t HashPlan(const StepBatch& batch) {
  Hash hash;
  hash.Add(static_cast<uint64_t>(batch.step));
  hash.Add(batch.epoch);
  hash.Add(static_cast<uint64_t>(batch.kind));
  for (const auto* values :
       {&batch.tokens, &batch.positions, &batch.slots, &batch.seq_begin, &batch.context_lens,
        &batch.block_begin, &batch.blocks, &batch.token_types})
    hash.Add(*values);
  hash.Add(batch.assignments.size());
  for (const SlotAssignment& a : batch.assignments) {
    hash.Add(static_cast<uint32_t>(a.slot));
    hash.Add(a.params.seed);
    hash.Add(std::bit_cast<uint32_t>(a.params.temperature));
  }
  hash.Add(batch.samples.size());
  for (const SampleRow& s : batch.samples) {
    hash.Add(static_cast<uint32_t>(s.row));
    hash.Add(static_cast<uint32_t>(s.slot));
    hash.Add(static_cast<uint32_t>(s.position));
  }
  return hash.state();
}

}  // namespace penstock
