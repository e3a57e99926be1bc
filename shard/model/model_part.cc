#include "shard/model/model_part.h"

#include <cmath>

namespace penstock {
namespace {

Range Times(Range range, int64_t factor) { return {range.begin * factor, range.end * factor}; }

AttentionShape ShapeOf(const ModelSpec& spec, Range heads, Range kv_heads) {
  AttentionShape shape;
  shape.heads = static_cast<int32_t>(heads.size());
  shape.kv_heads = static_cast<int32_t>(kv_heads.size());
  shape.head_begin = static_cast<int32_t>(heads.begin);
  shape.group = spec.group();
  shape.head_dim = spec.head_dim;
  shape.scale = 1.0f / std::sqrt(static_cast<float>(spec.head_dim));
  return shape;
}

}  // namespace

ModelPart::ModelPart(const ModelSpec& spec, const ShardPlan& plan, int rank)
    : layers(plan.Layers(plan.stage(rank))),
      q(Times(plan.Heads(plan.tensor_rank(rank)), spec.head_dim)),
      kv(Times(plan.KvHeads(plan.tensor_rank(rank)), spec.head_dim)),
      intermediate(plan.Intermediate(plan.tensor_rank(rank))),
      vocab(plan.Vocab(plan.tensor_rank(rank))),
      vocab_part(plan.vocab_part()),
      hidden(spec.hidden),
      tensor(plan.tensor()),
      adds_bias(plan.tensor_rank(rank) == 0),
      embeds(plan.first_stage(rank)),
      heads(plan.last_stage(rank)),
      attention(ShapeOf(spec, plan.Heads(plan.tensor_rank(rank)),
                        plan.KvHeads(plan.tensor_rank(rank)))) {}

}  // namespace penstock
