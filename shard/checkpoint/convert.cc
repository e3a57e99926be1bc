#include "shard/checkpoint/convert.h"

#include <algorithm>
#include <cstring>

#include "shard/base/half.h"
#include "shard/checkpoint/half_conversion.h"

namespace penstock {
namespace {

constexpr int64_t kChunk = 2048;  // floats on their way; a multiple of every block

// Elements of the blocks from the first on; `count` may end inside a block.
void ToFloats(const StoredType& type, const uint8_t* blocks, int64_t count, float* out) {
  switch (type.encoding) {
    case Encoding::kF32: std::memcpy(out, blocks, static_cast<size_t>(count) * 4); return;
    case Encoding::kF16:
      HalvesToFloats(reinterpret_cast<const uint16_t*>(blocks), count, out);
      return;
    case Encoding::kBF16: {
      const uint16_t* values = reinterpret_cast<const uint16_t*>(blocks);
      for (int64_t i = 0; i < count; ++i) out[i] = Bf16ToFloat(values[i]);
      return;
    }
    case Encoding::kBlocks:
      type.dequantize(blocks, (count + type.block_elements - 1) / type.block_elements, out);
      return;
    case Encoding::kUnsupported: return;
  }
}

void FromFloats(const float* values, int64_t count, DType dtype, uint8_t* out) {
  if (dtype == DType::kF32) {
    std::memcpy(out, values, static_cast<size_t>(count) * 4);
  } else if (dtype == DType::kF16) {
    FloatsToHalves(values, count, reinterpret_cast<uint16_t*>(out));
  } else {
    uint16_t* to = reinterpret_cast<uint16_t*>(out);
    for (int64_t i = 0; i < count; ++i) to[i] = FloatToBf16(values[i]);
  }
}

}  // namespace

bool IsStoredAs(Encoding encoding, DType dtype) {
  return (encoding == Encoding::kF32 && dtype == DType::kF32) ||
         (encoding == Encoding::kF16 && dtype == DType::kF16) ||
         (encoding == Encoding::kBF16 && dtype == DType::kBF16);
}

void ConvertElements(const StoredType& type, const uint8_t* blocks, int64_t skip, int64_t count,
                     DType dtype, void* out) {
  blocks += skip / type.block_elements * type.block_bytes;
  skip %= type.block_elements;
  uint8_t* to = static_cast<uint8_t*>(out);
  const int64_t size = static_cast<int64_t>(SizeOf(dtype));
  if (IsStoredAs(type.encoding, dtype)) {
    if (count > 0) std::memcpy(to, blocks, static_cast<size_t>(count * size));
    return;
  }
  alignas(64) float values[kChunk];
  while (count > 0) {
    const int64_t some = std::min(count, kChunk - skip);
    ToFloats(type, blocks, skip + some, values);
    FromFloats(values + skip, some, dtype, to);
    blocks += kChunk / type.block_elements * type.block_bytes;
    to += some * size;
    count -= some;
    skip = 0;
  }
}

void HalvesToFloats(const uint16_t* halves, int64_t count, float* out) {
  if (HasHalfInstructions()) return HalvesToFloatsByInstruction(halves, count, out);
  for (int64_t i = 0; i < count; ++i) out[i] = HalfToFloat(halves[i]);
}

void FloatsToHalves(const float* values, int64_t count, uint16_t* out) {
  if (HasHalfInstructions()) return FloatsToHalvesByInstruction(values, count, out);
  for (int64_t i = 0; i < count; ++i) out[i] = FloatToHalf(values[i]);
}

}  // namespace penstock
