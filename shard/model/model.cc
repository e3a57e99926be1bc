#include "shard/model/model.h"

#include "absl/strings/str_cat.h"
#include "shard/model/decoder.h"
#include "shard/model/decoder_part.h"

namespace penstock {

ModelFootprint MeasureModel(const ModelSpec& spec, const ShardPlan& plan, int rank, DType dtype,
                            int32_t max_context, int64_t step_tokens, int64_t samples,
                            const Backend& backend) {
  const DecoderPart part(spec, plan, rank);
  return {.weight_bytes = WeightBytes(spec, part, dtype, max_context, backend),
          .scratch_floats = ScratchFloats(part, step_tokens, samples),
          .attention = part.attention,
          .layers = static_cast<int32_t>(part.layers.size())};
}

absl::StatusOr<std::unique_ptr<Model>> LoadModel(const ModelSpec& spec, const ShardPlan& plan,
                                                 int rank, DType dtype, int32_t max_context,
                                                 const Checkpoint& checkpoint, Backend& backend,
                                                 ReadProgress* progress) {
  if (rank < 0 || rank >= plan.ranks())
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " of ", plan.ranks()));
  if (max_context < 1)
    return absl::InvalidArgumentError(
        absl::StrCat("max_context ", max_context, " is not positive"));
  const WeightLoader weights(checkpoint, backend, dtype, progress);
  return Decoder::Load(spec, DecoderPart(spec, plan, rank), max_context, weights, backend);
}

}  // namespace penstock
