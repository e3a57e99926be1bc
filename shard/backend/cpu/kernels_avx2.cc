// The vector comes before the kernels written over it.
// clang-format off
#include "shard/backend/cpu/vec_avx2.h"
#include "shard/backend/cpu/kernels_table.h"
// clang-format on

namespace penstock {

constinit const KernelTable kAvx2Kernels = MakeKernelTable("avx2");

}  // namespace penstock
