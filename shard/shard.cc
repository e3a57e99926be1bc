#include "shard/shard.h"

#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

constexpr const char* kLayer = "layer";

std::chrono::nanoseconds Nanoseconds(double seconds) {
  return std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
}

int64_t BlocksPerSequence(const MemoryPlanOptions& options) {
  return (options.max_context + options.kv_block_size - 1) / options.kv_block_size;
}

int64_t Count(std::chrono::nanoseconds time) { return int64_t{time.count()}; }

}  // namespace

int64_t InputInts(const MemoryPlanOptions& options) {
  const int64_t tokens = options.max_step_tokens, seqs = options.max_sequences;
  return 3 * tokens + 3 * seqs + 2 + seqs * BlocksPerSequence(options) + seqs;
}

Shard::Shard(const ModelSpec& spec, const ShardPlan& plan, int rank, const MemoryPlan& memory,
             std::unique_ptr<Backend> backend, std::unique_ptr<Model> model)
    : plan_(plan),
      rank_(rank),
      options_(memory.options),
      info_(memory.info),
      hidden_width_(spec.hidden),
      result_width_(HeadColumns(spec, plan)),
      backend_(std::move(backend)),
      model_(std::move(model)) {}

absl::StatusOr<std::unique_ptr<Shard>> Shard::Create(const ModelSpec& spec, const ShardPlan& plan,
                                                     int rank, const MemoryPlan& memory,
                                                     std::unique_ptr<Backend> backend,
                                                     std::unique_ptr<Model> model) {
  const int64_t scratch =
      MeasureModel(spec, plan, rank, memory.options.dtype, memory.options.max_context,
                   memory.options.max_step_tokens, memory.options.max_sequences, *backend)
          .scratch_floats;
  std::unique_ptr<Shard> shard(
      new Shard(spec, plan, rank, memory, std::move(backend), std::move(model)));
  ASSIGN_OR_RETURN(shard->scratch_, shard->backend_->Allocate(1, scratch, DType::kF32));
  RETURN_IF_ERROR(shard->Allocate());
  return shard;
}

absl::Status Shard::Allocate() {
  sample_rows_.reserve(static_cast<size_t>(options_.max_sequences));
  ASSIGN_OR_RETURN(hidden_,
                   backend_->Allocate(options_.max_step_tokens, hidden_width_, DType::kF32));
  ASSIGN_OR_RETURN(inputs_, backend_->Allocate(1, InputInts(options_), DType::kI32));
  if (plan_.last_stage(rank_)) {
    ASSIGN_OR_RETURN(results_,
                     backend_->Allocate(options_.max_sequences, result_width_, DType::kF32));
  }
  if (info_.output_width > 0) {
    token_types_.reserve(static_cast<size_t>(options_.max_step_tokens));
    return backend_->Sync();
  }
  const KvCacheShape shape{.blocks = info_.kv_blocks,
                           .block_size = info_.kv_block_size,
                           .kv_heads = model_->attention_shape().kv_heads,
                           .head_dim = model_->attention_shape().head_dim,
                           .dtype = options_.kv_dtype};
  for (int layer = 0; layer < model_->layers(); ++layer) {
    ASSIGN_OR_RETURN(std::unique_ptr<KvCache> cache, backend_->MakeKvCache(shape));
    caches_.push_back(std::move(cache));
  }
  return backend_->Sync();
}

void Shard::Connect(std::unique_ptr<Communicator> tensor_group,
                    std::unique_ptr<Communicator> pipeline_group, uint64_t epoch) {
  tensor_group_ = std::move(tensor_group);
  pipeline_group_ = std::move(pipeline_group);
  epoch_ = epoch;
  next_step_ = 0;
}

void Shard::Abort(const absl::Status& why) {
  tensor_group_->Abort(why);
  pipeline_group_->Abort(why);
}

absl::StatusOr<StepResult> Shard::Run(const StepBatch& batch) {
  RETURN_IF_ERROR(CheckTurn(batch));
  ++next_step_;
  const Moment begin = Now();
  Upload(batch);
  const Matrix x = hidden_.view.Rows(0, std::ssize(batch.tokens));
  Forward(x);
  StepResult result;
  result.step = batch.step;
  if (plan_.last_stage(rank_)) Finish(batch, x, &result);
  // The groups first: what the backend then finds wrong may be of their making.
  absl::Status outcome = Lost();
  outcome.Update(backend_->Sync());
  const std::string operation = this->operation();
  operation_.store("idle");
  result.stages = {Measure(begin)};
  if (!outcome.ok())
    return absl::Status(outcome.code(), absl::StrCat("step ", batch.step, ", rank ", rank_, ", ",
                                                     operation, ": ", outcome.message()));
  return result;
}

absl::Status Shard::CheckTurn(const StepBatch& batch) const {
  const auto refuse = [&](const std::string& why) {
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", rank_, " refuses step ", batch.step, ": ", why));
  };
  if (batch.epoch != epoch_)
    return refuse(absl::StrCat("it is of epoch ", batch.epoch, ", this is ", epoch_));
  if (batch.step != next_step_) return refuse(absl::StrCat("expected step ", next_step_));
  if (batch.plan_hash != HashPlan(batch)) return refuse("its plan hash is wrong");
  return absl::OkStatus();
}

void Shard::Upload(const StepBatch& batch) {
  operation_.store("upload");
  int64_t at = 0;
  const auto upload = [&](const std::vector<int32_t>& values) {
    const Matrix to = inputs_.view.Cols(at, std::ssize(values));
    at += to.cols;
    if (to.cols > 0) backend_->Upload(values.data(), to);
    return to;
  };
  batch_.tokens = upload(batch.tokens);
  batch_.positions = upload(batch.positions);
  batch_.slots = upload(batch.slots);
  batch_.seq_begin = upload(batch.seq_begin);
  batch_.context_lens = upload(batch.context_lens);
  batch_.block_begin = upload(batch.block_begin);
  batch_.blocks = upload(batch.blocks);
  sample_rows_.clear();
  for (const SampleRow& sample : batch.samples) sample_rows_.push_back(sample.row);
  batch_.sample_rows = upload(sample_rows_);
  if (batch.kind != StepKind::kEncode) return;
  token_types_ = batch.token_types;
  token_types_.resize(batch.tokens.size());  // none given: all 0
  batch_.token_types = upload(token_types_);
}

void Shard::Forward(Matrix x) {
  ForwardContext ctx = Context();
  const int stage = plan_.stage(rank_);
  if (plan_.first_stage(rank_)) {
    operation_.store("embed");
    arrival_ = Now();
    model_->Embed(ctx, x);
  } else {
    operation_.store("receive from the previous stage");
    const double transferred = pipeline_group_->transfer_seconds();
    pipeline_group_->Recv(stage - 1, x);
    arrival_ = Now();  // and then it was moved
    const double moved = pipeline_group_->transfer_seconds() - transferred;
    arrival_.transferred -= moved;
    arrival_.time -= Nanoseconds(moved);
  }
  computing_since_.store(Count(arrival_.time.time_since_epoch()));
  for (int i = 0; i < model_->layers(); ++i) {
    if (!Lost().ok()) return;  // the rest is worth nothing, and someone waits for the end of it
    layer_.store(static_cast<int>(plan_.Layers(stage).begin) + i);
    operation_.store(kLayer);
    KvCache* cache = caches_.empty() ? nullptr : caches_[static_cast<size_t>(i)].get();
    model_->Layer(ctx, i, cache, x);
  }
  if (plan_.last_stage(rank_) || !Lost().ok()) return;
  operation_.store("send to the next stage");
  pipeline_group_->Send(x, stage + 1);
}

void Shard::Finish(const StepBatch& batch, Matrix x, StepResult* result) {
  if (!Lost().ok()) return;
  const bool encodes = batch.kind == StepKind::kEncode;
  const Matrix results = results_.view.Rows(0, encodes ? batch.seqs() : std::ssize(batch.samples));
  if (results.rows > 0) {
    ForwardContext ctx = Context();
    operation_.store(encodes ? "pool" : "logits");
    model_->Head(ctx, x, results);
  }
  if (rank_ != plan_.driver() || !Lost().ok()) return;
  if (!encodes) return Sample(batch, results.Cols(0, info_.vocab), result);
  result->outputs.resize(static_cast<size_t>(results.rows * results.cols));
  backend_->Download(results, result->outputs.data());
}

void Shard::Sample(const StepBatch& batch, Matrix logits, StepResult* result) {
  operation_.store("sample");
  backend_->sampling().Assign(batch.assignments);
  if (logits.rows == 0) return;
  backend_->sampling().Sample(logits, info_.vocab, batch.samples, &result->samples);
  if (!batch.return_logits) return;
  result->logits.resize(static_cast<size_t>(logits.rows * info_.vocab));
  backend_->Download(logits, result->logits.data());
}

ForwardContext Shard::Context() {
  return {backend_->dense(), backend_->attention(), backend_->encoder(), *tensor_group_, batch_,
          scratch_.view};
}

absl::Status Shard::Lost() const {
  RETURN_IF_ERROR(tensor_group_->status());
  return pipeline_group_->status();
}

std::string Shard::operation() const {
  const char* operation = operation_.load();
  return operation == kLayer ? absl::StrCat(operation, " ", layer_.load()) : operation;
}

Shard::Moment Shard::Now() const {
  return {.time = std::chrono::steady_clock::now(),
          .waited = tensor_group_->wait_seconds() + pipeline_group_->wait_seconds(),
          .transferred = tensor_group_->transfer_seconds() + pipeline_group_->transfer_seconds()};
}

StageTiming Shard::Measure(const Moment& begin) {
  const Moment end = Now();
  computing_since_.store(0);
  const double moved = end.transferred - begin.transferred;
  stats_.transfer += moved;
  stats_.busy += std::chrono::duration<double>(end.time - begin.time).count() -
                 (end.waited - begin.waited) - moved;
  return {.begin = Count(arrival_.time.time_since_epoch()),
          .end = Count(end.time.time_since_epoch()),
          .transfer = Count(Nanoseconds(end.transferred - arrival_.transferred)),
          .wait = Count(Nanoseconds(end.waited - arrival_.waited))};
}

double Shard::computing_seconds() const {
  const int64_t since = computing_since_.load();
  if (since == 0) return 0;
  const int64_t now = Count(std::chrono::steady_clock::now().time_since_epoch());
  return static_cast<double>(now - since) * 1e-9;
}

}  // namespace penstock
