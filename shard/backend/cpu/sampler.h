#pragma once

#include <cstdint>
#include <vector>

#include "shard/backend/cpu/cpu_context.h"
#include "shard/backend/cpu/draw.h"
#include "shard/backend/ops.h"

namespace penstock {

// Sampling on the CPU. Rows are shared out over the threads; a row's token depends only on its own
// logits and slot. Order: penalties, logit_bias, stop mask, then MostLikely() (temperature 0) or
// DrawToken(). Masks that would leave nothing to draw are not applied. A row without a finite logit
// gets kNoToken.
class CpuSampler : public SamplingOps {
 public:
  explicit CpuSampler(CpuContext& context) : context_(context) {}

  void Assign(std::span<const SlotAssignment> assignments) override;
  void Sample(Matrix logits, int32_t vocab, std::span<const SampleRow> rows,
              std::vector<SampledToken>* out) override;

 private:
  // A token that a sequence has seen, for the penalties.
  struct SeenToken {
    int32_t id = 0;
    int32_t count = 0;  // in the output
  };
  struct Slot {
    bool assigned = false;
    int32_t sample_index = 0;
    SamplingParams params;
    std::vector<SeenToken> seen;  // ascending ids; only kept when there are penalties
    int64_t last_call = 0;        // of Sample()
  };

  bool CheckRows(const Matrix& logits, int32_t vocab, std::span<const SampleRow> rows);
  static void Count(int32_t token, int32_t occurrences, Slot& slot);
  // The row's logits as the draw sees them: `logits` itself when nothing changes them.
  static const float* Adjust(const float* logits, int32_t vocab, const Slot& slot, bool mask_stops,
                             DrawScratch& scratch);
  SampledToken SampleOne(const float* logits, int32_t vocab, const SampleRow& row,
                         DrawScratch& scratch);

  CpuContext& context_;
  std::vector<Slot> slots_;
  std::vector<DrawScratch> scratch_;  // per worker
  int64_t calls_ = 0;
};

}  // namespace penstock
