#include "shard/model/model.h"

#include "absl/strings/str_cat.h"
#include "shard/model/bert_encoder.h"
#include "shard/model/bert_encoder_footprint.h"
#include "shard/model/decoder.h"
#include "shard/model/decoder_footprint.h"

namespace penstock {

ModelFootprint MeasureModel(const ModelSpec& spec, const ShardPlan& plan, int rank, DType dtype,
                            int32_t max_context, int64_t step_tokens, int64_t samples,
                            const Backend& backend) {
  const ModelPart part(spec, plan, rank);
  if (spec.encoder)
    return {.weight_bytes = EncoderWeightBytes(spec, part, dtype, backend),
            .scratch_floats = EncoderScratchFloats(part, step_tokens, samples),
            .attention = part.attention,
            .layers = static_cast<int32_t>(part.layers.size())};
  return {.weight_bytes = WeightBytes(spec, part, dtype, max_context, backend),
          .scratch_floats = ScratchFloats(part, step_tokens, samples),
          .attention = part.attention,
          .layers = static_cast<int32_t>(part.layers.size())};
}

int64_t HeadColumns(const ModelSpec& spec, const ShardPlan& plan) {
  if (spec.encoder) return spec.encoder->output_width(spec.hidden);
  return plan.tensor() * plan.vocab_part();
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
  if (spec.encoder) return BertEncoder::Load(spec, ModelPart(spec, plan, rank), weights);
  return Decoder::Load(spec, ModelPart(spec, plan, rank), max_context, weights, backend);
}

}  // namespace penstock
