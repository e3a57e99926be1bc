#include "shard/model/decoder.h"

namespace penstock {

// x = rows of the table; each row is on one rank, so the sum adds zeros to it.
void Decoder::Embed(ForwardContext& ctx, Matrix x) const {
  ctx.dense.Embed(*embedding_, ctx.batch.tokens, static_cast<int32_t>(part_.vocab.begin), x);
  ctx.tensor_group.AllReduceSum(x);
}

// x += attention(norm(x)); x += mlp(norm(x))
void Decoder::Layer(ForwardContext& ctx, int index, KvCache* cache, Matrix x) const {
  const Block& block = blocks_[static_cast<size_t>(index)];
  Scratch scratch(ctx.scratch);
  const auto [normed, delta] = BranchScratch(part_, x.rows, scratch);

  ctx.dense.RmsNorm(x, block.attention_norm.view, spec_.norm_eps, normed);
  Attention(ctx, block, *cache, normed, scratch, delta);
  ctx.dense.AddRmsNorm(delta, block.mlp_norm.view, spec_.norm_eps, x, normed);
  Mlp(ctx, block, normed, scratch, delta);
  ctx.dense.Add(delta, x);
}

void Decoder::Attention(ForwardContext& ctx, const Block& block, KvCache& cache, Matrix normed,
                        Scratch scratch, Matrix delta) const {
  const auto [qkv, mixed] = AttentionScratch(part_, normed.rows, scratch);
  const Matrix q = qkv.Cols(0, part_.q.size());
  const Matrix k = qkv.Cols(part_.q.size(), part_.kv.size());

  ctx.dense.MatMul(normed, *block.qkv.weight, block.qkv.bias.view, qkv);
  if (spec_.qk_norm) {
    ctx.dense.HeadRmsNorm(block.q_norm.view, spec_.norm_eps, spec_.head_dim, q);
    ctx.dense.HeadRmsNorm(block.k_norm.view, spec_.norm_eps, spec_.head_dim, k);
  }
  ctx.attention.RopeAndCache(qkv, ctx.batch, rope_.table(), block.attention, cache);
  ctx.attention.Attention(q, cache, ctx.batch, block.attention, mixed);
  ctx.dense.MatMul(mixed, *block.out.weight, block.out.bias.view, delta);
  ctx.tensor_group.AllReduceSum(delta);
}

// delta = down(silu(gate(normed)) * up(normed))
void Decoder::Mlp(ForwardContext& ctx, const Block& block, Matrix normed, Scratch scratch,
                  Matrix delta) const {
  const auto [gate_up, activated] = MlpScratch(part_, normed.rows, scratch);

  ctx.dense.MatMulSiluMul(normed, *block.gate_up.weight, block.gate_up.bias.view, gate_up,
                          activated);
  ctx.dense.MatMul(activated, *block.down.weight, block.down.bias.view, delta);
  ctx.tensor_group.AllReduceSum(delta);
}

void Decoder::Head(ForwardContext& ctx, Matrix x, Matrix logits) const {
  if (logits.rows == 0) return;
  Scratch scratch(ctx.scratch);
  const auto [picked, normed, mine, all] = LogitsScratch(part_, logits.rows, scratch);

  ctx.dense.GatherRows(x, ctx.batch.sample_rows, picked);
  ctx.dense.RmsNorm(picked, final_norm_.view, spec_.norm_eps, normed);
  const Matrix out = part_.tensor == 1 ? logits : mine;
  ctx.dense.MatMul(normed, head(), Matrix{}, out.Cols(0, part_.vocab.size()));
  if (part_.tensor == 1) return;
  ctx.tensor_group.AllGather(mine, all);
  for (int64_t rank = 0; rank < part_.tensor; ++rank) {
    ctx.dense.Copy(all.Rows(rank * logits.rows, logits.rows),
                   logits.Cols(rank * part_.vocab_part, part_.vocab_part));
  }
}

}  // namespace penstock
