#include <deque>
#include <memory>

#include "absl/strings/str_cat.h"
#include "bench/instructions/workload.h"
#include "bench/support/random_checkpoint.h"
#include "shard/backend/cpu/cpu_backend.h"
#include "shard/base/status_macros.h"
#include "shard/comm/local_comm.h"
#include "shard/shard.h"

namespace penstock {
namespace {

constexpr int32_t kSequences = 8, kContext = 256, kFirst = 200;

// One rank that has the whole small model, on the calling thread.
class OneRank {
 public:
  static absl::StatusOr<std::shared_ptr<OneRank>> Make() {
    ASSIGN_OR_RETURN(const auto checkpoint, RandomCheckpoint::Create("small", 1));
    auto rank = std::make_shared<OneRank>();
    ASSIGN_OR_RETURN(const ModelSpec spec, ParseModelSpec(checkpoint->config()));
    ASSIGN_OR_RETURN(const ShardPlan plan, ShardPlan::Create(spec, {}));
    ASSIGN_OR_RETURN(auto backend, MakeCpuBackend({.threads = 1, .isa = kCountedIsa}));
    const MemoryPlanOptions options = {.max_context = kContext,
                                       .max_sequences = kSequences,
                                       .max_step_tokens = 64,
                                       .kv_tokens = kSequences * kContext};
    ASSIGN_OR_RETURN(rank->memory_, PlanMemory(spec, plan, options, *backend));
    ASSIGN_OR_RETURN(auto model, LoadModel(spec, plan, 0, options.dtype, kContext, *checkpoint,
                                           *backend, nullptr));
    ASSIGN_OR_RETURN(rank->shard_, Shard::Create(spec, plan, 0, rank->memory_, std::move(backend),
                                                 std::move(model)));
    const GroupOptions groups = PlanGroups(spec, plan, rank->memory_.options);
    rank->shard_->Connect(std::move(MakeLocalGroup("tensor", 1, groups.tensor)[0]),
                          std::move(MakeLocalGroup("pipeline", 1, groups.pipeline)[0]), 1);
    return rank;
  }

  // The token at `position` of `sequences` sequences, each of which then draws one. What the cache
  // holds of those before are zeros: a sum takes as long.
  StepBatch MakeStep(int32_t sequences, int32_t position) {
    StepBatch batch;
    batch.step = step_++;
    batch.epoch = 1;
    batch.seq_begin = batch.block_begin = {0};
    for (int32_t s = 0; s < sequences; ++s) AddSequence(s, position, batch);
    batch.plan_hash = HashPlan(batch);
    return batch;
  }

  absl::Status Run(const StepBatch& batch) {
    ASSIGN_OR_RETURN(const StepResult result, shard_->Run(batch));
    for (const SampledToken& token : result.samples)
      if (token.token == kNoToken) return absl::InternalError("no token was drawn");
    return result.samples.size() == batch.samples.size() ? absl::OkStatus()
                                                         : absl::InternalError("samples miss");
  }

 private:
  void AddSequence(int32_t s, int32_t position, StepBatch& batch) const {
    const int32_t size = memory_.info.kv_block_size, first_block = s * kContext / size;
    batch.tokens.push_back((s * 977 + position * 131) % memory_.info.vocab);
    batch.positions.push_back(position);
    batch.slots.push_back(first_block * size + position);
    batch.seq_begin.push_back(s + 1);
    batch.context_lens.push_back(position + 1);
    for (int32_t b = 0; b <= position / size; ++b) batch.blocks.push_back(first_block + b);
    batch.block_begin.push_back(static_cast<int32_t>(batch.blocks.size()));
    if (position == kFirst) {
      SlotAssignment& assignment = batch.assignments.emplace_back();
      assignment.slot = s;
      assignment.params.temperature = 0;
    }
    batch.samples.push_back({.row = s, .slot = s, .position = position + 1});
  }

  MemoryPlan memory_;
  std::unique_ptr<Shard> shard_;
  int64_t step_ = 0;
};

absl::StatusOr<Work> PrepareDecode(int32_t sequences) {
  ASSIGN_OR_RETURN(const std::shared_ptr<OneRank> rank, OneRank::Make());
  auto steps = std::make_shared<std::deque<StepBatch>>();
  for (int32_t i = 0; i < 2; ++i) steps->push_back(rank->MakeStep(sequences, kFirst + i));
  return [rank, steps]() -> absl::Status {
    if (steps->empty()) return absl::InternalError("called more than twice");
    RETURN_IF_ERROR(rank->Run(steps->front()));
    steps->pop_front();
    return absl::OkStatus();
  };
}

}  // namespace

std::vector<Workload> StepWorkloads() {
  std::vector<Workload> all;
  for (const int32_t sequences : {1, kSequences})
    all.push_back(
        {absl::StrCat("step/decode-", sequences), [=] { return PrepareDecode(sequences); }});
  return all;
}

}  // namespace penstock
