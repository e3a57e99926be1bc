#include "tests/model/golden_model.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <thread>

#include "shard/backend/cpu/cpu_backend.h"
#include "shard/base/status_macros.h"
#include "shard/comm/local_comm.h"
#include "shard/model/model.h"
#include "tests/support/golden_file.h"

namespace penstock {
namespace {

// One rank of a group: a backend, its part of the model and the memory for one sequence.
class Rank {
 public:
  Rank(const ModelSpec& spec, const ShardPlan& plan, int rank, const RunOptions& options,
       Communicator& group)
      : spec_(spec), plan_(plan), rank_(rank), options_(options), group_(group) {}

  absl::StatusOr<std::vector<float>> Run(const Checkpoint& checkpoint,
                                         const std::vector<int32_t>& tokens) {
    RETURN_IF_ERROR(Load(checkpoint, std::ssize(tokens)));
    std::vector<float> logits;
    for (int64_t begin = 0; begin < std::ssize(tokens); begin += options_.chunk) {
      const int64_t end = std::min(begin + options_.chunk, std::ssize(tokens));
      RETURN_IF_ERROR(Step(tokens, begin, end, logits));
    }
    return logits;
  }

 private:
  absl::Status Load(const Checkpoint& checkpoint, int64_t tokens) {
    CpuOptions cpu;
    cpu.threads = 1;
    ASSIGN_OR_RETURN(backend_, MakeCpuBackend(cpu));
    const int32_t context = options_.max_context > 0 ? options_.max_context : spec_.max_context;
    ASSIGN_OR_RETURN(model_, LoadModel(spec_, plan_, rank_, options_.dtype, context, checkpoint,
                                       *backend_, nullptr));
    const AttentionShape& shape = model_->attention_shape();
    blocks_ = static_cast<int32_t>((tokens + kBlockSize - 1) / kBlockSize);
    for (int i = 0; i < model_->layers(); ++i) {
      ASSIGN_OR_RETURN(std::unique_ptr<KvCache> cache,
                       backend_->MakeKvCache({.blocks = blocks_,
                                              .block_size = kBlockSize,
                                              .kv_heads = shape.kv_heads,
                                              .head_dim = shape.head_dim,
                                              .dtype = options_.dtype}));
      caches_.push_back(std::move(cache));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Matrix> Device(const std::vector<int32_t>& values) {
    ASSIGN_OR_RETURN(OwnedMatrix matrix, backend_->Allocate(1, std::ssize(values), DType::kI32));
    backend_->Upload(values.data(), matrix.view);
    RETURN_IF_ERROR(backend_->Sync());
    inputs_.push_back(std::move(matrix));
    return inputs_.back().view;
  }

  // Blocks are used from the last to the first, so that a slot is not its position.
  absl::StatusOr<DeviceBatch> Batch(const std::vector<int32_t>& tokens, int64_t begin,
                                    int64_t end) {
    std::vector<int32_t> positions, slots, blocks, rows;
    for (int32_t block = blocks_ - 1; block >= 0; --block) blocks.push_back(block);
    for (auto p = static_cast<int32_t>(begin); p < end; ++p) {
      positions.push_back(p);
      slots.push_back((blocks_ - 1 - p / kBlockSize) * kBlockSize + p % kBlockSize);
      rows.push_back(p - static_cast<int32_t>(begin));
    }
    inputs_.clear();
    DeviceBatch batch;
    ASSIGN_OR_RETURN(batch.tokens, Device({tokens.begin() + begin, tokens.begin() + end}));
    ASSIGN_OR_RETURN(batch.positions, Device(positions));
    ASSIGN_OR_RETURN(batch.slots, Device(slots));
    ASSIGN_OR_RETURN(batch.seq_begin, Device({0, static_cast<int32_t>(end - begin)}));
    ASSIGN_OR_RETURN(batch.context_lens, Device({static_cast<int32_t>(end)}));
    ASSIGN_OR_RETURN(batch.block_begin, Device({0, blocks_}));
    ASSIGN_OR_RETURN(batch.blocks, Device(blocks));
    ASSIGN_OR_RETURN(batch.sample_rows, Device(rows));
    return batch;
  }

  absl::Status Step(const std::vector<int32_t>& tokens, int64_t begin, int64_t end,
                    std::vector<float>& logits) {
    const int64_t rows = end - begin, columns = plan_.vocab_part() * plan_.tensor();
    ASSIGN_OR_RETURN(const DeviceBatch batch, Batch(tokens, begin, end));
    const ModelFootprint footprint =
        MeasureModel(spec_, plan_, rank_, options_.dtype, 1, rows, rows, *backend_);
    ASSIGN_OR_RETURN(const OwnedMatrix scratch,
                     backend_->Allocate(1, footprint.scratch_floats, DType::kF32));
    ASSIGN_OR_RETURN(const OwnedMatrix x, backend_->Allocate(rows, spec_.hidden, DType::kF32));
    ASSIGN_OR_RETURN(const OwnedMatrix out, backend_->Allocate(rows, columns, DType::kF32));
    ForwardContext ctx{backend_->dense(), backend_->attention(), backend_->encoder(), group_, batch,
                       scratch.view};
    model_->Embed(ctx, x.view);
    for (int i = 0; i < model_->layers(); ++i)
      model_->Layer(ctx, i, caches_[static_cast<size_t>(i)].get(), x.view);
    model_->Head(ctx, x.view, out.view);
    std::vector<float> padded(static_cast<size_t>(rows * columns));
    backend_->Download(out.view, padded.data());
    RETURN_IF_ERROR(backend_->Sync());
    RETURN_IF_ERROR(group_.status());
    for (auto row = padded.begin(); row != padded.end(); row += columns)
      logits.insert(logits.end(), row, row + spec_.vocab);
    return absl::OkStatus();
  }

  static constexpr int32_t kBlockSize = 16;
  const ModelSpec& spec_;
  const ShardPlan& plan_;
  const int rank_;
  const RunOptions options_;
  Communicator& group_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> model_;
  std::vector<std::unique_ptr<KvCache>> caches_;
  std::vector<OwnedMatrix> inputs_;
  int32_t blocks_ = 0;
};

}  // namespace

std::string GoldenFolder(const std::string& name) {
  return std::string(PENSTOCK_TEST_DATA "/models/") + name;
}

std::vector<std::string> GoldenModels() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(GoldenFolder("")))
    if (std::filesystem::exists(entry.path() / "golden.safetensors"))
      names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

Golden ReadGolden(const std::string& name) {
  const GoldenFile file(GoldenFolder(name) + "/golden.safetensors");
  return {file.Read<int32_t>("input_ids"), file.Read<float>("logits"),
          file.Read<int32_t>("greedy")};
}

absl::StatusOr<std::vector<float>> RunModel(const Checkpoint& checkpoint, const ModelSpec& spec,
                                            const std::vector<int32_t>& tokens,
                                            const RunOptions& options) {
  ShardPlanOptions cut;
  cut.tensor = options.tensor;
  ASSIGN_OR_RETURN(const ShardPlan plan, ShardPlan::Create(spec, cut));
  LocalCommOptions comm;
  comm.max_elements = std::ssize(tokens) * std::max<int64_t>(spec.hidden, plan.vocab_part());
  const auto group = MakeLocalGroup("tensor", options.tensor, comm);
  std::vector<absl::StatusOr<std::vector<float>>> results(static_cast<size_t>(options.tensor),
                                                          absl::UnknownError("did not run"));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < options.tensor; ++rank) {
    threads.emplace_back([&, rank] {
      const auto index = static_cast<size_t>(rank);
      results[index] = Rank(spec, plan, rank, options, *group[index]).Run(checkpoint, tokens);
      if (!results[index].ok()) group[index]->Abort(results[index].status());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) {
    RETURN_IF_ERROR(result.status());
    if (*result != *results[0]) return absl::InternalError("ranks disagree about the logits");
  }
  return results[0];
}

double RelativeError(const std::vector<float>& a, const std::vector<float>& b, int32_t columns) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (size_t row = 0; row < b.size(); row += static_cast<size_t>(columns)) {
    double error = 0, largest = 0;
    for (size_t i = row; i < row + static_cast<size_t>(columns); ++i) {
      if (!std::isfinite(a[i])) return std::numeric_limits<double>::infinity();
      error = std::max(error, std::abs(double{a[i]} - double{b[i]}));
      largest = std::max(largest, std::abs(double{b[i]}));
    }
    worst = std::max(worst, error / largest);
  }
  return worst;
}

}  // namespace penstock
