#include "shard/checkpoint/dequantize.h"

#include <cstring>

#include "shard/base/half.h"

namespace penstock {
namespace {

constexpr int kBlock = 32;        // elements of a plain block
constexpr int kSuperBlock = 256;  // elements of a K block

float LoadHalf(const uint8_t* bytes) {
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof bits);
  return HalfToFloat(bits);
}

uint32_t LoadWord(const uint8_t* bytes) {
  uint32_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

// 16 bytes hold element j in the low and element j + 16 in the high half of byte j.
void UnpackNibbles(const uint8_t* packed, int* q) {
  for (int j = 0; j < kBlock / 2; ++j) {
    q[j] = packed[j] & 15;
    q[j + kBlock / 2] = packed[j] >> 4;
  }
}

// The fifth bit of element j is bit j of `high`.
void AddFifthBits(uint32_t high, int* q) {
  for (int j = 0; j < kBlock; ++j) q[j] |= static_cast<int>(high >> j & 1u) << 4;
}

void Scale(const int* q, int zero, float d, float* out) {
  for (int j = 0; j < kBlock; ++j) out[j] = d * static_cast<float>(q[j] - zero);
}

void ScaleAndShift(const int* q, float d, float m, float* out) {
  for (int j = 0; j < kBlock; ++j) out[j] = d * static_cast<float>(q[j]) + m;
}

// The 6-bit scale and minimum of sub-block j of 8, packed in 12 bytes: the first four in the low 6
// bits of bytes 0-7, the others with their low 4 bits in bytes 8-11 and their high 2 above those.
struct ScaleAndMin {
  float scale, min;
};
ScaleAndMin UnpackScale(const uint8_t* s, int j) {
  if (j < 4) return {static_cast<float>(s[j] & 63), static_cast<float>(s[j + 4] & 63)};
  return {static_cast<float>((s[j + 4] & 15) | (s[j - 4] >> 6 << 4)),
          static_cast<float>((s[j + 4] >> 4) | (s[j] >> 6 << 4))};
}

// Sub-block `part` of 8 of a Q4_K or Q5_K block: pairs of sub-blocks share 32 bytes, the even one
// in the low halves. `high` (Q5_K) holds the fifth bit in bit `part`; null: there is none.
void UnpackSubBlock(const uint8_t* packed, const uint8_t* high, int part, int* q) {
  const uint8_t* bytes = packed + part / 2 * kBlock;
  const int shift = part % 2 * 4;
  for (int l = 0; l < kBlock; ++l) q[l] = bytes[l] >> shift & 15;
  if (high == nullptr) return;
  for (int l = 0; l < kBlock; ++l) q[l] |= (high[l] >> part & 1) << 4;
}

void DequantizeK(const uint8_t* block, const uint8_t* packed, const uint8_t* high, float* out) {
  const float d = LoadHalf(block), dmin = LoadHalf(block + 2);
  int q[kBlock];
  for (int part = 0; part < 8; ++part) {
    const ScaleAndMin by = UnpackScale(block + 4, part);
    const float scale = d * by.scale, min = dmin * by.min;
    UnpackSubBlock(packed, high, part, q);
    for (int l = 0; l < kBlock; ++l)
      out[part * kBlock + l] = scale * static_cast<float>(q[l]) - min;
  }
}

// Elements [32 quarter, +32) of a half of a Q6_K block: 4 low bits in `low` (64 bytes), 2 high bits
// in `high` (32 bytes), a scale for each 16.
void DequantizeQ6Quarter(const uint8_t* low, const uint8_t* high, const uint8_t* scales,
                         int quarter, float d, float* out) {
  const uint8_t* bytes = low + quarter % 2 * kBlock;
  const int shift = quarter / 2 * 4;
  for (int part = 0; part < 2; ++part) {
    const float scale = d * static_cast<float>(static_cast<int8_t>(scales[quarter * 2 + part]));
    for (int l = part * 16; l < part * 16 + 16; ++l) {
      const int q = (bytes[l] >> shift & 15) | (high[l] >> (2 * quarter) & 3) << 4;
      out[l] = scale * static_cast<float>(q - 32);
    }
  }
}

}  // namespace

void DequantizeQ4_0(const uint8_t* blocks, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i, blocks += 18, out += kBlock) {
    int q[kBlock];
    UnpackNibbles(blocks + 2, q);
    Scale(q, 8, LoadHalf(blocks), out);
  }
}

void DequantizeQ4_1(const uint8_t* blocks, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i, blocks += 20, out += kBlock) {
    int q[kBlock];
    UnpackNibbles(blocks + 4, q);
    ScaleAndShift(q, LoadHalf(blocks), LoadHalf(blocks + 2), out);
  }
}

void DequantizeQ5_0(const uint8_t* blocks, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i, blocks += 22, out += kBlock) {
    int q[kBlock];
    UnpackNibbles(blocks + 6, q);
    AddFifthBits(LoadWord(blocks + 2), q);
    Scale(q, 16, LoadHalf(blocks), out);
  }
}

void DequantizeQ5_1(const uint8_t* blocks, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i, blocks += 24, out += kBlock) {
    int q[kBlock];
    UnpackNibbles(blocks + 8, q);
    AddFifthBits(LoadWord(blocks + 4), q);
    ScaleAndShift(q, LoadHalf(blocks), LoadHalf(blocks + 2), out);
  }
}

void DequantizeQ8_0(const uint8_t* blocks, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i, blocks += 34, out += kBlock) {
    const float d = LoadHalf(blocks);
    for (int j = 0; j < kBlock; ++j)
      out[j] = d * static_cast<float>(static_cast<int8_t>(blocks[2 + j]));
  }
}

void DequantizeQ4_K(const uint8_t* blocks, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i, blocks += 144, out += kSuperBlock)
    DequantizeK(blocks, blocks + 16, nullptr, out);
}

void DequantizeQ5_K(const uint8_t* blocks, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i, blocks += 176, out += kSuperBlock)
    DequantizeK(blocks, blocks + 48, blocks + 16, out);
}

void DequantizeQ6_K(const uint8_t* blocks, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i, blocks += 210, out += kSuperBlock) {
    const float d = LoadHalf(blocks + 208);
    for (int half = 0; half < 2; ++half)
      for (int quarter = 0; quarter < 4; ++quarter)
        DequantizeQ6Quarter(blocks + half * 64, blocks + 128 + half * 32, blocks + 192 + half * 8,
                            quarter, d, out + half * 128 + quarter * kBlock);
  }
}

}  // namespace penstock
