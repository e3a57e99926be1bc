// The vector comes before the kernels written over it.
// clang-format off
#include "shard/backend/cpu/vec_avx512.h"
#include "shard/backend/cpu/kernels_elementwise.h"
#include "shard/backend/cpu/kernels_attention.h"
#include "shard/backend/cpu/kernels_matmul.h"
// clang-format on

namespace penstock {

constinit const KernelTable kAvx512Kernels = {
    .isa = "avx512",
    .multiply_panel = {MultiplyPanel<float>, MultiplyPanel<F16>, MultiplyPanel<BF16>},
    .rms_norm = RmsNorm,
    .add_rms_norm = AddRmsNorm,
    .add = AddTo,
    .silu_mul = SiluMul,
    .rotate = Rotate,
    .exp_shifted = ExpShifted,
    .write_kv = {WriteKv<float>, WriteKv<F16>, WriteKv<BF16>},
    .attend_chunk = {AttendChunk<float>, AttendChunk<F16>, AttendChunk<BF16>},
    .merge_part = MergePart,
    .finish_part = FinishPart,
};

}  // namespace penstock
