#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "shard/backend/backend.h"
#include "shard/checkpoint/checkpoint.h"
#include "shard/comm/communicator.h"
#include "shard/model/model_spec.h"
#include "shard/model/shard_plan.h"

namespace penstock {

// What a rank computes with, for one step.
struct ForwardContext {
  DenseOps& dense;
  AttentionOps& attention;
  EncoderOps& encoder;
  Communicator& tensor_group;
  const DeviceBatch& batch;
  Matrix scratch;  // one row of f32, at least Model::ScratchFloats(rows) wide, contents undefined
};

// One rank's layers. Immutable once loaded; all state comes as arguments. x is the residual stream,
// [tokens, hidden] f32.
class Model {
 public:
  virtual ~Model() = default;
  virtual void Embed(ForwardContext& ctx, Matrix x) const = 0;
  // `index` counts this rank's layers from 0.
  // A one-shot model has no cache: null.
  virtual void Layer(ForwardContext& ctx, int index, KvCache* cache, Matrix x) const = 0;
  // On the last stage. Of a model that generates, out is [samples, tensor * vocab_part]: the logits
  // of the rows ctx.batch.sample_rows of x, columns in id order, on every rank. Of a one-shot model
  // it is [seqs, output_width], on the stage's first rank.
  virtual void Head(ForwardContext& ctx, Matrix x, Matrix out) const = 0;

  virtual int layers() const = 0;  // on this rank
  virtual const AttentionShape& attention_shape() const = 0;
};

// Needed before anything is loaded, for the memory plan.
struct ModelFootprint {
  int64_t weight_bytes = 0;
  int64_t scratch_floats = 0;  // for `step_tokens` rows and `samples` rows of results
  AttentionShape attention;
  int32_t layers = 0;
};
ModelFootprint MeasureModel(const ModelSpec& spec, const ShardPlan& plan, int rank, DType dtype,
                            int32_t max_context, int64_t step_tokens, int64_t samples,
                            const Backend& backend);

// Columns of what Head() fills.
int64_t HeadColumns(const ModelSpec& spec, const ShardPlan& plan);

// Loads rank `rank`'s part. `max_context` fixes the rotary tables (and the base of dynamic
// scaling).
absl::StatusOr<std::unique_ptr<Model>> LoadModel(const ModelSpec& spec, const ShardPlan& plan,
                                                 int rank, DType dtype, int32_t max_context,
                                                 const Checkpoint& checkpoint, Backend& backend,
                                                 ReadProgress* progress);

}  // namespace penstock
