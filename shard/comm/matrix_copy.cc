#include "shard/comm/matrix_copy.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace penstock {
namespace {

void AddTwo(const float* a, const float* b, int64_t count, float* __restrict sum) {
  for (int64_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

void AddTo(const float* a, int64_t count, float* __restrict sum) {
  for (int64_t i = 0; i < count; ++i) sum[i] += a[i];
}

}  // namespace

void Pack(Matrix from, int64_t begin, int64_t end, void* to) {
  const auto size = static_cast<int64_t>(SizeOf(from.dtype));
  ForEachRun(from, begin, end, [&](const void* run, int64_t offset, int64_t count) {
    std::memcpy(static_cast<std::byte*>(to) + offset * size, run,
                static_cast<size_t>(count * size));
  });
}

void Unpack(const void* from, int64_t begin, int64_t end, Matrix to) {
  const auto size = static_cast<int64_t>(SizeOf(to.dtype));
  ForEachRun(to, begin, end, [&](void* run, int64_t offset, int64_t count) {
    std::memcpy(run, static_cast<const std::byte*>(from) + offset * size,
                static_cast<size_t>(count * size));
  });
}

void SumInOrder(const float* const* values, int ranks, int64_t count, float* sum) {
  constexpr int64_t kBlock = 2048;  // 8 KiB of sums stay in the first cache
  for (int64_t at = 0; at < count; at += kBlock) {
    const int64_t some = std::min(kBlock, count - at);
    AddTwo(values[0] + at, values[1] + at, some, sum + at);
    for (int rank = 2; rank < ranks; ++rank) AddTo(values[rank] + at, some, sum + at);
  }
}

}  // namespace penstock
