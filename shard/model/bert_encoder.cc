#include "shard/model/bert_encoder.h"

#include "shard/model/bert_encoder_footprint.h"

namespace penstock {

// x = norm(token + position + segment). A token's row is on one rank of the group, so the sum adds
// zeros to it; the two small tables are on all of them.
void BertEncoder::Embed(ForwardContext& ctx, Matrix x) const {
  Scratch scratch(ctx.scratch);
  const Matrix row = scratch.Take(x.rows, x.cols);

  ctx.dense.Embed(*tokens_, ctx.batch.tokens, static_cast<int32_t>(part_.vocab.begin), x);
  ctx.tensor_group.AllReduceSum(x);
  if (token_types_ != nullptr) {
    ctx.dense.Embed(*token_types_, ctx.batch.token_types, 0, row);
    ctx.dense.Add(row, x);
  }
  ctx.dense.Embed(*positions_, ctx.batch.positions, -encoder_.position_offset, row);
  ctx.dense.Add(row, x);
  ctx.encoder.LayerNorm(x, embedding_norm_.weight.view, embedding_norm_.bias.view, spec_.norm_eps,
                        x);
}

// x = norm(x + attention(x)); x = norm(x + mlp(x))
void BertEncoder::Layer(ForwardContext& ctx, int index, KvCache* /*cache*/, Matrix x) const {
  const Block& block = blocks_[static_cast<size_t>(index)];
  Scratch scratch(ctx.scratch);
  const Matrix delta = scratch.Take(x.rows, x.cols);

  Attention(ctx, block, x, scratch, delta);
  AddNorm(ctx, delta, block.attention_norm, x);
  Mlp(ctx, block, x, scratch, delta);
  AddNorm(ctx, delta, block.mlp_norm, x);
}

void BertEncoder::AddNorm(ForwardContext& ctx, Matrix delta, const Norm& norm, Matrix x) const {
  ctx.encoder.AddLayerNorm(delta, norm.weight.view, norm.bias.view, spec_.norm_eps, x);
}

void BertEncoder::Attention(ForwardContext& ctx, const Block& block, Matrix x, Scratch scratch,
                            Matrix delta) const {
  const auto [qkv, mixed] = EncoderAttentionScratch(part_, x.rows, scratch);

  ctx.dense.MatMul(x, *block.qkv.weight, block.qkv.bias.view, qkv);
  ctx.encoder.Attention(qkv, ctx.batch, part_.attention, mixed);
  ctx.dense.MatMul(mixed, *block.attention_out.weight, block.attention_out.bias.view, delta);
  ctx.tensor_group.AllReduceSum(delta);
}

// delta = down(activation(up(x)))
void BertEncoder::Mlp(ForwardContext& ctx, const Block& block, Matrix x, Scratch scratch,
                      Matrix delta) const {
  const Matrix inner = scratch.Take(x.rows, part_.intermediate.size());

  ctx.dense.MatMulActivate(x, *block.up.weight, block.up.bias.view, encoder_.activation, inner);
  ctx.dense.MatMul(inner, *block.down.weight, block.down.bias.view, delta);
  ctx.tensor_group.AllReduceSum(delta);
}

void BertEncoder::Head(ForwardContext& ctx, Matrix x, Matrix out) const {
  if (!HasEncoderHead(part_)) return;
  const Matrix first_rows = ctx.batch.seq_begin.Cols(0, out.rows);
  switch (encoder_.pooling) {
    case Pooling::kMean: ctx.encoder.MeanRows(x, ctx.batch.seq_begin, out); break;
    case Pooling::kCls: ctx.dense.GatherRows(x, first_rows, out); break;
    case Pooling::kClassify: Classify(ctx, x, out); break;
  }
  if (encoder_.normalize) ctx.encoder.NormalizeRows(out);
}

void BertEncoder::Classify(ForwardContext& ctx, Matrix x, Matrix scores) const {
  Scratch scratch(ctx.scratch);
  const Matrix first = scratch.Take(scores.rows, part_.hidden);
  const Matrix pooled = scratch.Take(scores.rows, part_.hidden);

  ctx.dense.GatherRows(x, ctx.batch.seq_begin.Cols(0, scores.rows), first);
  ctx.dense.MatMul(first, *head_dense_.weight, head_dense_.bias.view, pooled);
  ctx.encoder.Activate(encoder_.head_activation, pooled);
  ctx.dense.MatMul(pooled, *head_out_.weight, head_out_.bias.view, scores);
}

}  // namespace penstock
