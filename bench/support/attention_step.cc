#include "bench/support/attention_step.h"

namespace penstock {
namespace {

Matrix View(std::vector<int32_t>& values) {
  const int64_t size = std::ssize(values);
  return {values.data(), 1, size, size, DType::kI32};
}

}  // namespace

AttentionStep::AttentionStep(int32_t sequences, int32_t rows, int32_t context) {
  const int32_t count = (context + kBlockSize - 1) / kBlockSize;
  const auto block = [=](int32_t s, int32_t b) { return b * sequences + s; };
  for (int32_t s = 0; s < sequences; ++s) {
    for (int32_t b = 0; b < count; ++b) blocks_.push_back(block(s, b));
    for (int32_t p = context - rows; p < context; ++p) {
      positions_.push_back(p);
      slots_.push_back(block(s, p / kBlockSize) * kBlockSize + p % kBlockSize);
    }
    seq_begin_.push_back(static_cast<int32_t>(positions_.size()));
    contexts_.push_back(context);
    block_begin_.push_back(static_cast<int32_t>(blocks_.size()));
  }
}

double AttentionStep::keys_seen() const {
  double keys = 0;
  for (const int32_t position : positions_) keys += position + 1;
  return keys;
}

DeviceBatch AttentionStep::batch() {
  return {.tokens = {},
          .positions = View(positions_),
          .slots = View(slots_),
          .seq_begin = View(seq_begin_),
          .context_lens = View(contexts_),
          .block_begin = View(block_begin_),
          .blocks = View(blocks_),
          .sample_rows = {}};
}

}  // namespace penstock
