#include "shard/backend/cpu/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shard/base/host_memory.h"

namespace penstock {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;

absl::Status Exhausted(int64_t bytes, int64_t available) {
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot allocate ", bytes, " bytes of host memory; ", available, " available"));
}

// Makes the pages present.
void Populate(char* data, int64_t bytes) {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE; an older Linux (< 5.14) refuses it
  if (madvise(data, static_cast<size_t>(bytes), kPopulateWrite) == 0) return;
  for (int64_t i = 0; i < bytes; i += 4096) *static_cast<volatile char*>(data + i) = 0;
}

absl::StatusOr<HostMemory> MapHugePages(int64_t bytes) {
  const int64_t available = AvailableHostBytes();
  if (bytes > available) return Exhausted(bytes, available);
  const size_t mapped = static_cast<size_t>(bytes + kHugePage);  // room to align
  void* base = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return Exhausted(bytes, available);
  const uintptr_t address = reinterpret_cast<uintptr_t>(base);
  const uintptr_t skip = (kHugePage - address % kHugePage) % kHugePage;
  char* data = static_cast<char*>(base) + skip;
  madvise(data, static_cast<size_t>(bytes), MADV_HUGEPAGE);  // a wish
  Populate(data, bytes);
  return HostMemory(data, [base, mapped](void*) { munmap(base, mapped); });
}

}  // namespace

absl::StatusOr<HostMemory> AllocateZeroed(int64_t bytes) {
  if (bytes < 0) return absl::InvalidArgumentError(absl::StrCat("negative size ", bytes));
  if (bytes >= kHugePage) return MapHugePages(bytes);
  const size_t size = static_cast<size_t>(std::max<int64_t>((bytes + 63) / 64 * 64, 64));
  void* data = std::aligned_alloc(64, size);
  if (data == nullptr) return Exhausted(bytes, AvailableHostBytes());
  std::memset(data, 0, size);
  return HostMemory(data, [](void* p) { std::free(p); });
}

int64_t ByteCount(int64_t rows, int64_t cols, int64_t element_size) {
  int64_t elements = 0, bytes = 0;
  if (rows < 0 || cols < 0 || __builtin_mul_overflow(rows, cols, &elements) ||
      __builtin_mul_overflow(elements, element_size, &bytes) ||
      bytes > std::numeric_limits<int64_t>::max() - 2 * kHugePage)
    return -1;
  return bytes;
}

}  // namespace penstock
