#include "shard/memory_plan.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "shard/base/host_memory.h"
#include "shard/base/status_macros.h"
#include "shard/shard.h"

namespace penstock {
namespace {

constexpr int64_t kFloat = sizeof(float);

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

absl::Status CheckOptions(const MemoryPlanOptions& options) {
  const auto positive = [](const char* name, int64_t value) {
    if (value >= 1) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, ", it must be at least 1"));
  };
  RETURN_IF_ERROR(positive("max_sequences", options.max_sequences));
  RETURN_IF_ERROR(positive("max_step_tokens", options.max_step_tokens));
  RETURN_IF_ERROR(positive("kv_block_size", options.kv_block_size));
  if (options.max_context < 0 || options.kv_tokens < 0)
    return absl::InvalidArgumentError("max_context and kv_tokens must not be negative");
  if (options.max_sequences > options.max_step_tokens)
    return absl::InvalidArgumentError(
        absl::StrCat("max_sequences (", options.max_sequences, ") exceeds max_step_tokens (",
                     options.max_step_tokens, "): a step could not carry a token of each"));
  return absl::OkStatus();
}

// Answers what a setting would cost; everything else follows from that.
class Planner {
 public:
  Planner(const ModelSpec& spec, const ShardPlan& plan, const MemoryPlanOptions& options,
          const Backend& backend)
      : spec_(spec), plan_(plan), options_(options), backend_(backend) {}

  // All ranks, with the KV cache of `blocks` blocks.
  std::vector<RankMemory> Ranks(int32_t max_context, int64_t blocks) const {
    std::vector<RankMemory> ranks;
    for (int rank = 0; rank < plan_.ranks(); ++rank)
      ranks.push_back(Measure(rank, max_context, blocks));
    return ranks;
  }

  int64_t Total(int32_t max_context, int64_t blocks) const {
    int64_t total = 0;
    for (const RankMemory& rank : Ranks(max_context, blocks)) total += rank.total();
    return total;
  }

  int64_t Blocks(int64_t tokens) const { return CeilDiv(tokens, options_.kv_block_size); }

  // The largest value in [0, most] for which `fits` holds; it must be monotonous.
  template <typename Fits>
  static int64_t Largest(int64_t most, Fits fits) {
    int64_t low = 0, high = most;
    while (low < high) {
      const int64_t middle = low + (high - low + 1) / 2;
      if (fits(middle))
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  }

 private:
  RankMemory Measure(int rank, int32_t max_context, int64_t blocks) const {
    MemoryPlanOptions options = options_;
    options.max_context = max_context;
    const ModelFootprint model =
        MeasureModel(spec_, plan_, rank, options.dtype, max_context, options.max_step_tokens,
                     options.max_sequences, backend_);
    const KvCacheShape kv{.blocks = static_cast<int32_t>(blocks),
                          .block_size = options.kv_block_size,
                          .kv_heads = model.attention.kv_heads,
                          .head_dim = model.attention.head_dim,
                          .dtype = options.kv_dtype};
    RankMemory memory;
    memory.rank = rank;
    memory.device = "cpu";
    memory.weights = model.weight_bytes;
    memory.kv = model.layers * backend_.KvCacheBytes(kv);
    int64_t floats = model.scratch_floats + int64_t{options.max_step_tokens} * spec_.hidden;
    if (plan_.last_stage(rank)) floats += options.max_sequences * LogitsColumns(plan_);
    memory.scratch = (floats + InputInts(options)) * kFloat;
    memory.comm = CommBytes(rank);
    return memory;
  }

  // A group's buffers are counted at its first rank.
  int64_t CommBytes(int rank) const {
    const GroupOptions groups = PlanGroups(spec_, plan_, options_);
    int64_t bytes = 0;
    if (plan_.tensor_rank(rank) == 0) bytes += LocalGroupBytes(plan_.tensor(), groups.tensor);
    if (plan_.stage(rank) == 0) bytes += LocalGroupBytes(plan_.pipeline(), groups.pipeline);
    return bytes;
  }

  const ModelSpec& spec_;
  const ShardPlan& plan_;
  const MemoryPlanOptions& options_;
  const Backend& backend_;
};

std::string MiB(int64_t bytes) { return absl::StrCat(bytes >> 20, " MiB"); }

absl::Status TooMuch(const Planner& planner, const MemoryPlanOptions& options, int32_t max_context,
                     int64_t blocks, int64_t available) {
  std::string message = absl::StrCat("the model does not fit: ");
  for (const RankMemory& rank : planner.Ranks(max_context, blocks))
    absl::StrAppend(&message, "rank ", rank.rank, " needs ", MiB(rank.weights), " of weights, ",
                    MiB(rank.kv), " of KV cache, ", MiB(rank.scratch + rank.comm), " of scratch; ");
  absl::StrAppend(&message, "in all ", MiB(planner.Total(max_context, blocks)), " of ",
                  MiB(available), " available. ");
  if (planner.Total(1, 1) > available)
    return absl::ResourceExhaustedError(absl::StrCat(
        message, "No context fits: use a smaller --dtype, --max-sequences or --max-step-tokens"));
  const int64_t context = Planner::Largest(max_context, [&](int64_t tokens) {
    return planner.Total(static_cast<int32_t>(std::max<int64_t>(tokens, 1)),
                         planner.Blocks(std::max<int64_t>(tokens, 1))) <= available;
  });
  if (context < max_context)
    return absl::ResourceExhaustedError(
        absl::StrCat(message, "The largest --max-context that fits is ", context));
  const int64_t most = Planner::Largest(
      blocks, [&](int64_t count) { return planner.Total(max_context, count) <= available; });
  return absl::ResourceExhaustedError(
      absl::StrCat(message, "The largest --kv-tokens that fits is ", most * options.kv_block_size));
}

// The cache is taken, page by page, when the ranks are created, so the default is modest: as much
// as the weights, but at least this; no more than half of what is left, nor than all sequences at
// full length could use.
constexpr int64_t kLeastUnaskedKvBytes = int64_t{256} << 20;

int64_t ChooseBlocks(const Planner& planner, const MemoryPlanOptions& options, int32_t max_context,
                     int64_t available) {
  const int64_t least = planner.Blocks(max_context);
  const int64_t useful = std::min<int64_t>(
      least * options.max_sequences, std::numeric_limits<int32_t>::max() / options.kv_block_size);
  int64_t weights = 0;
  for (const RankMemory& rank : planner.Ranks(max_context, 0)) weights += rank.weights;
  const int64_t fixed = planner.Total(max_context, 0);
  const int64_t most =
      fixed + std::min((available - fixed) / 2, std::max(weights, kLeastUnaskedKvBytes));
  return std::max(least, Planner::Largest(useful, [&](int64_t blocks) {
                    return planner.Total(max_context, blocks) <= most;
                  }));
}

absl::Status CheckContext(const ModelSpec& spec, const MemoryPlanOptions& options,
                          int32_t context) {
  if (context < 2)
    return absl::InvalidArgumentError(
        absl::StrCat("a context of ", context, " tokens has no room for a prompt and an answer"));
  const double factor = spec.rope.scaling == RopeScaling::kDynamic ? spec.rope.factor : 1.0;
  const auto longest = static_cast<int64_t>(spec.max_context * std::max(factor, 1.0));
  if (context > longest)
    return absl::InvalidArgumentError(absl::StrCat("max_context (", context, ") exceeds the ",
                                                   longest, " positions the model was made for"));
  if (options.kv_tokens > 0 && options.kv_tokens < context)
    return absl::InvalidArgumentError(absl::StrCat("kv_tokens (", options.kv_tokens,
                                                   ") cannot hold one sequence of max_context (",
                                                   context, ")"));
  return absl::OkStatus();
}

}  // namespace

int64_t MemoryPlan::total() const {
  int64_t bytes = 0;
  for (const RankMemory& rank : ranks) bytes += rank.total();
  return bytes;
}

GroupOptions PlanGroups(const ModelSpec& spec, const ShardPlan& plan,
                        const MemoryPlanOptions& options) {
  GroupOptions groups;
  for (LocalCommOptions* group : {&groups.tensor, &groups.pipeline})
    group->max_elements = int64_t{options.max_step_tokens} * spec.hidden;
  for (int stage = 1; stage < plan.pipeline(); ++stage)
    groups.pipeline.links.push_back({stage - 1, stage});
  return groups;
}

absl::StatusOr<MemoryPlan> PlanMemory(const ModelSpec& spec, const ShardPlan& plan,
                                      const MemoryPlanOptions& options, const Backend& backend) {
  RETURN_IF_ERROR(CheckOptions(options));
  const Planner planner(spec, plan, options, backend);
  const int64_t available =
      options.available_bytes > 0 ? options.available_bytes : AvailableHostBytes();
  int32_t context = options.max_context > 0 ? options.max_context : spec.max_context;
  const auto fits = [&](int64_t tokens) {
    return planner.Total(static_cast<int32_t>(tokens), planner.Blocks(tokens)) <= available;
  };
  if (options.max_context == 0 && options.kv_tokens == 0 && !fits(context) && fits(1))
    context = static_cast<int32_t>(Planner::Largest(
        context, [&](int64_t tokens) { return fits(std::max<int64_t>(tokens, 1)); }));
  if (options.kv_tokens > 0 && options.max_context == 0)
    context = std::min(context, options.kv_tokens);
  RETURN_IF_ERROR(CheckContext(spec, options, context));
  const int64_t blocks = options.kv_tokens > 0 ? planner.Blocks(options.kv_tokens)
                                               : ChooseBlocks(planner, options, context, available);
  if (planner.Total(context, blocks) > available)
    return TooMuch(planner, options, context, blocks, available);

  MemoryPlan memory;
  memory.options = options;
  memory.options.max_context = context;
  memory.options.kv_tokens = static_cast<int32_t>(blocks * options.kv_block_size);
  memory.options.available_bytes = available;
  memory.ranks = planner.Ranks(context, blocks);
  for (RankMemory& rank : memory.ranks) rank.available = available;
  memory.info = {.stages = plan.pipeline(),
                 .max_in_flight = plan.pipeline() + 1,
                 .kv_blocks = static_cast<int32_t>(blocks),
                 .kv_block_size = options.kv_block_size,
                 .max_step_tokens = options.max_step_tokens,
                 .max_sequences = options.max_sequences,
                 .max_context = context,
                 .vocab = spec.vocab};
  return memory;
}

}  // namespace penstock
