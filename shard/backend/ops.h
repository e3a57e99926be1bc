#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shard/api/step.h"
#include "shard/backend/activation.h"
#include "shard/backend/matrix.h"

namespace penstock {

// Weights and KV caches are opaque to models: a backend packs them as it likes.
class Weight {
 public:
  virtual ~Weight() = default;
  virtual int64_t rows() const = 0;  // outputs
  virtual int64_t cols() const = 0;  // inputs
  virtual DType dtype() const = 0;
  virtual int64_t bytes() const = 0;
};

// One layer's paged keys and values of one rank.
class KvCache {
 public:
  virtual ~KvCache() = default;
  virtual int64_t bytes() const = 0;
};

// A StepBatch's arrays in device memory, each one row of int32.
struct DeviceBatch {
  Matrix tokens, positions, slots;  // [tokens]
  Matrix seq_begin, context_lens;   // [seqs + 1], [seqs]
  Matrix block_begin, blocks;       // [seqs + 1], [...]
  Matrix sample_rows;               // [samples]
  Matrix token_types{};             // [tokens] of an encode step
  int64_t seqs() const { return context_lens.cols; }
};

// A rank's share of one layer's heads. Query heads may be split unevenly: global head h of this
// rank is head_begin + (local h), and it reads KV head h / group, of which this rank holds those
// from head_begin / group on.
struct AttentionShape {
  int32_t heads = 0;       // query heads on this rank
  int32_t kv_heads = 0;    // KV heads on this rank
  int32_t head_begin = 0;  // global index of the first query head
  int32_t group = 1;       // query heads per KV head in the whole model
  int32_t head_dim = 0;
  int32_t window = 0;  // a query at p sees (p - window, p]; 0 sees everything before it
  float scale = 0;     // of q.k before the softmax

  int32_t kv_of(int32_t local_head) const {
    return (head_begin + local_head) / group - head_begin / group;
  }
};

// cos and sin for every position, [max_context, rotary_dim / 2] each, attention factor included.
// Rotates pairs (i, i + rotary_dim / 2), the Hugging Face layout.
struct RopeTable {
  Matrix cos, sin;  // f32
};

// Dense algebra. Activations are f32 matrices; rows are tokens. Every output element's sum runs
// over the inputs in one fixed order that does not depend on the number of rows (DESIGN invariant
// 3).
class DenseOps {
 public:
  virtual ~DenseOps() = default;
  // out[i] = row (ids[i] - first_id) of `table`; zeros where the table does not have that row.
  virtual void Embed(const Weight& table, Matrix ids, int32_t first_id, Matrix out) = 0;
  // out = x * weight^T (+ bias [1, outputs] if its data is not null).
  virtual void MatMul(Matrix x, const Weight& weight, Matrix bias, Matrix out) = 0;
  // EncoderOps::Activate of MatMul(x, weight, bias), the same bits.
  virtual void MatMulActivate(Matrix x, const Weight& weight, Matrix bias, Activation activation,
                              Matrix out) = 0;
  // out = x / rms(x) * weight; weight is [1, cols] f32.
  virtual void RmsNorm(Matrix x, Matrix weight, float eps, Matrix out) = 0;
  // residual += delta; out = residual / rms(residual) * weight.
  virtual void AddRmsNorm(Matrix delta, Matrix weight, float eps, Matrix residual, Matrix out) = 0;
  // As RmsNorm, in place, over each head_dim wide part of each row; weight is [1, head_dim].
  virtual void HeadRmsNorm(Matrix weight, float eps, int32_t head_dim, Matrix inout) = 0;
  virtual void Add(Matrix delta, Matrix inout) = 0;
  // gate_up is [tokens, 2n], gate first; out = silu(gate) * up, [tokens, n].
  virtual void SiluMul(Matrix gate_up, Matrix out) = 0;
  // SiluMul of MatMul(x, weight, bias), the same bits. What is in `gate_up`, [tokens, 2n], is then
  // undefined.
  virtual void MatMulSiluMul(Matrix x, const Weight& weight, Matrix bias, Matrix gate_up,
                             Matrix out) = 0;
  virtual void GatherRows(Matrix x, Matrix rows, Matrix out) = 0;  // out[i] = x[rows[i]]
  virtual void Copy(Matrix from, Matrix to) = 0;
};

class AttentionOps {
 public:
  virtual ~AttentionOps() = default;
  // qkv is [tokens, (heads + 2 * kv_heads) * head_dim]. Rotates q (in place) and k by each row's
  // position and writes k and v to the cache at each row's slot, in the cache's dtype.
  virtual void RopeAndCache(Matrix qkv, const DeviceBatch& batch, const RopeTable& rope,
                            const AttentionShape& shape, KvCache& cache) = 0;
  // q is [tokens, heads * head_dim] (a window of qkv). Keys and values are read from the cache
  // only; the softmax is split at absolute positions, so a row's result depends on nothing but its
  // own position and cache.
  virtual void Attention(Matrix q, const KvCache& cache, const DeviceBatch& batch,
                         const AttentionShape& shape, Matrix out) = 0;
};

// What encoders compute beside DenseOps. A row's result depends on its own sequence alone.
class EncoderOps {
 public:
  virtual ~EncoderOps() = default;
  // out = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias; weight and bias are [1, cols].
  virtual void LayerNorm(Matrix x, Matrix weight, Matrix bias, float eps, Matrix out) = 0;
  // inout = LayerNorm(inout + delta).
  virtual void AddLayerNorm(Matrix delta, Matrix weight, Matrix bias, float eps, Matrix inout) = 0;
  virtual void Activate(Activation activation, Matrix inout) = 0;
  // qkv is [tokens, (heads + 2 * kv_heads) * head_dim], out [tokens, heads * head_dim]. Every row
  // attends to all rows of its sequence (batch.seq_begin). No rotation, no window, no cache.
  virtual void Attention(Matrix qkv, const DeviceBatch& batch, const AttentionShape& shape,
                         Matrix out) = 0;
  // out[s] = the mean of the rows seq_begin[s] .. seq_begin[s + 1] of x.
  virtual void MeanRows(Matrix x, Matrix seq_begin, Matrix out) = 0;
  virtual void NormalizeRows(Matrix inout) = 0;  // to length 1 (rows of zeros stay)
};

class SamplingOps {
 public:
  virtual ~SamplingOps() = default;
  // Binds sequences to slots; what a slot held before is forgotten.
  virtual void Assign(std::span<const SlotAssignment> assignments) = 0;
  // logits is [samples, >= vocab] f32, left unchanged. Ids from `vocab` on are never drawn; a
  // row without a finite logit gets kNoToken. `out` is complete after Backend::Sync(). Draws are
  // added to their slots' counts.
  virtual void Sample(Matrix logits, int32_t vocab, std::span<const SampleRow> rows,
                      std::vector<SampledToken>* out) = 0;
};

}  // namespace penstock
