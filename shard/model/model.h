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
  virtual void Layer(ForwardContext& ctx, int index, KvCache& cache, Matrix x) const = 0;
  // logits is [samples, tensor * vocab_part]: the rows ctx.batch.sample_rows of x, columns in id
  // order.
  virtual void Logits(ForwardContext& ctx, Matrix x, Matrix logits) const = 0;

  virtual int layers() const = 0;  // on this rank
  virtual const AttentionShape& attention_shape() const = 0;
};

// Needed before anything is loaded, for the memory plan.
struct ModelFootprint {
  int64_t weight_bytes = 0;
  int64_t scratch_floats = 0;  // for `step_tokens` rows and `samples` logits rows
  AttentionShape attention;
  int32_t layers = 0;
};
ModelFootprint MeasureModel(const ModelSpec& spec, const ShardPlan& plan, int rank, DType dtype,
                            int32_t max_context, int64_t step_tokens, int64_t samples,
                            const Backend& backend);

// Loads rank `rank`'s part. `max_context` fixes the rotary tables (and the base of dynamic
// scaling).
absl::StatusOr<std::unique_ptr<Model>> LoadModel(const ModelSpec& spec, const ShardPlan& plan,
                                                 int rank, DType dtype, int32_t max_context,
                                                 const Checkpoint& checkpoint, Backend& backend,
                                                 ReadProgress* progress);

}  // namespace penstock
