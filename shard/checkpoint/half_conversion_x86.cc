#include <immintrin.h>

#include <cstring>

#include "shard/checkpoint/half_conversion.h"

namespace penstock {
namespace {

constexpr int64_t kLanes = 8;

__attribute__((target("avx,f16c"))) void EightToFloats(const uint16_t* halves, float* out) {
  _mm256_storeu_ps(out, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves))));
}

__attribute__((target("avx,f16c"))) void EightToHalves(const float* values, uint16_t* out) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out),
                   _mm256_cvtps_ph(_mm256_loadu_ps(values), _MM_FROUND_TO_NEAREST_INT));
}

}  // namespace

// Every processor with AVX2 has F16C, which Clang 14 cannot be asked about.
bool HasHalfInstructions() { return __builtin_cpu_supports("avx2"); }

// The rest that fills no register goes through a padded one, so that every element is converted the
// same way wherever it stands.
__attribute__((target("avx,f16c"))) void HalvesToFloatsByInstruction(const uint16_t* halves,
                                                                     int64_t count, float* out) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) EightToFloats(halves + i, out + i);
  uint16_t from[kLanes] = {};
  float to[kLanes];
  std::memcpy(from, halves + i, static_cast<size_t>(count - i) * sizeof *from);
  EightToFloats(from, to);
  std::memcpy(out + i, to, static_cast<size_t>(count - i) * sizeof *to);
}

__attribute__((target("avx,f16c"))) void FloatsToHalvesByInstruction(const float* values,
                                                                     int64_t count, uint16_t* out) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) EightToHalves(values + i, out + i);
  float from[kLanes] = {};
  uint16_t to[kLanes];
  std::memcpy(from, values + i, static_cast<size_t>(count - i) * sizeof *from);
  EightToHalves(from, to);
  std::memcpy(out + i, to, static_cast<size_t>(count - i) * sizeof *to);
}

}  // namespace penstock
