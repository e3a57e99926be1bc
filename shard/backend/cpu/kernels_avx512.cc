// The vector comes before the kernels written over it.
// clang-format off
#include "shard/backend/cpu/vec_avx512.h"
#include "shard/backend/cpu/kernels_table.h"
// clang-format on

namespace penstock {

constinit const KernelTable kAvx512Kernels = MakeKernelTable("avx512");

}  // namespace penstock
