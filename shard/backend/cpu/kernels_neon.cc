// The vector comes before the kernels written over it.
// clang-format off
#include "shard/backend/cpu/vec_neon.h"
#include "shard/backend/cpu/kernels_table.h"
// clang-format on

namespace penstock {

constinit const KernelTable kNeonKernels = MakeKernelTable("neon");

}  // namespace penstock
