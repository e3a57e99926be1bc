#include "shard/memory_plan.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "shard/base/host_memory.h"
#include "shard/base/status_macros.h"
#include "shard/memory_planner.h"

namespace penstock {
namespace {

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

std::string MiB(int64_t bytes) { return absl::StrCat(bytes >> 20, " MiB"); }

std::string Needs(const MemoryPlanner& planner, int32_t max_context, int64_t blocks,
                  int64_t available) {
  std::string message = "the model does not fit: ";
  for (const RankMemory& rank : planner.Ranks(max_context, blocks))
    absl::StrAppend(&message, "rank ", rank.rank, " needs ", MiB(rank.weights), " of weights, ",
                    MiB(rank.kv), " of KV cache, ", MiB(rank.scratch + rank.comm), " of scratch; ");
  absl::StrAppend(&message, "in all ", MiB(planner.Total(max_context, blocks)), " of ",
                  MiB(available), " available. ");
  return message;
}

// Of a one-shot model only the step's size can be given up, down to one whole sequence.
absl::Status TooMuchAtOnce(const MemoryPlanner& planner, const MemoryPlanOptions& options,
                           int32_t max_context, int64_t available) {
  const std::string message = Needs(planner, max_context, 0, available);
  const int64_t tokens = MemoryPlanner::Largest(options.max_step_tokens, [&](int64_t count) {
    return planner.WithStepTokens(std::max<int64_t>(count, 1)).Total(max_context, 0) <= available;
  });
  if (tokens < max_context)
    return absl::ResourceExhaustedError(
        absl::StrCat(message,
                     "No step of one whole sequence fits: use a smaller --dtype, "
                     "--max-context or --max-sequences"));
  return absl::ResourceExhaustedError(
      absl::StrCat(message, "The largest --max-step-tokens that fits is ", tokens));
}

absl::Status TooMuch(const MemoryPlanner& planner, const MemoryPlanOptions& options,
                     int32_t max_context, int64_t blocks, int64_t available) {
  const std::string message = Needs(planner, max_context, blocks, available);
  if (planner.Total(1, 1) > available)
    return absl::ResourceExhaustedError(absl::StrCat(
        message, "No context fits: use a smaller --dtype, --max-sequences or --max-step-tokens"));
  const int64_t context = MemoryPlanner::Largest(max_context, [&](int64_t tokens) {
    return planner.Total(static_cast<int32_t>(std::max<int64_t>(tokens, 1)),
                         planner.Blocks(std::max<int64_t>(tokens, 1))) <= available;
  });
  if (context < max_context)
    return absl::ResourceExhaustedError(
        absl::StrCat(message, "The largest --max-context that fits is ", context));
  const int64_t most = MemoryPlanner::Largest(
      blocks, [&](int64_t count) { return planner.Total(max_context, count) <= available; });
  return absl::ResourceExhaustedError(
      absl::StrCat(message, "The largest --kv-tokens that fits is ", most * options.kv_block_size));
}

// The cache is taken, page by page, when the ranks are created, so the default is modest: as much
// as the weights, but at least this; no more than half of what is left, nor than all sequences at
// full length could use.
constexpr int64_t kLeastUnaskedKvBytes = int64_t{256} << 20;

int64_t ChooseBlocks(const MemoryPlanner& planner, const MemoryPlanOptions& options,
                     int32_t max_context, int64_t available) {
  const int64_t least = planner.Blocks(max_context);
  const int64_t useful = std::min<int64_t>(
      least * options.max_sequences, std::numeric_limits<int32_t>::max() / options.kv_block_size);
  int64_t weights = 0;
  for (const RankMemory& rank : planner.Ranks(max_context, 0)) weights += rank.weights;
  const int64_t fixed = planner.Total(max_context, 0);
  const int64_t most =
      fixed + std::min((available - fixed) / 2, std::max(weights, kLeastUnaskedKvBytes));
  return std::max(least, MemoryPlanner::Largest(useful, [&](int64_t blocks) {
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

// The whole of a step is one part of one sequence or parts of several.
constexpr int32_t kStepTokens = 512;
// Sequences are whole, and large products are the fastest.
constexpr int32_t kEncoderStepTokens = 4096;

int32_t DefaultStepTokens(const ModelSpec& spec, const MemoryPlanOptions& options) {
  if (!spec.encoder) return kStepTokens;
  const int32_t context = options.max_context > 0 ? options.max_context : spec.max_context;
  return std::max({kEncoderStepTokens, context, options.max_sequences});
}

absl::Status CheckEncoder(const ModelSpec& spec, const MemoryPlanOptions& options) {
  if (options.kv_tokens > 0)
    return absl::InvalidArgumentError(absl::StrCat(
        "kv_tokens (", options.kv_tokens, ") is set, but ", spec.architecture, " has no KV cache"));
  if (options.max_context > spec.max_context)
    return absl::InvalidArgumentError(absl::StrCat("max_context (", options.max_context,
                                                   ") exceeds the ", spec.max_context,
                                                   " positions the model was made for"));
  const int32_t context = options.max_context > 0 ? options.max_context : spec.max_context;
  if (options.max_step_tokens < context)
    return absl::InvalidArgumentError(
        absl::StrCat("max_step_tokens (", options.max_step_tokens, ") is below max_context (",
                     context, "): a step of ", spec.architecture, " has whole sequences"));
  return absl::OkStatus();
}

// The context and the KV cache's blocks.
struct Sizes {
  int32_t context = 0;
  int64_t blocks = 0;
};

absl::StatusOr<Sizes> ChooseSizes(const ModelSpec& spec, const MemoryPlanner& planner,
                                  const MemoryPlanOptions& options) {
  int32_t context = options.max_context > 0 ? options.max_context : spec.max_context;
  if (spec.encoder) {
    RETURN_IF_ERROR(CheckEncoder(spec, options));
    return Sizes{context, 0};
  }
  const int64_t available = options.available_bytes;
  const auto fits = [&](int64_t tokens) {
    return planner.Total(static_cast<int32_t>(tokens), planner.Blocks(tokens)) <= available;
  };
  if (options.max_context == 0 && options.kv_tokens == 0 && !fits(context) && fits(1))
    context = static_cast<int32_t>(MemoryPlanner::Largest(
        context, [&](int64_t tokens) { return fits(std::max<int64_t>(tokens, 1)); }));
  if (options.kv_tokens > 0 && options.max_context == 0)
    context = std::min(context, options.kv_tokens);
  RETURN_IF_ERROR(CheckContext(spec, options, context));
  const int64_t blocks = options.kv_tokens > 0 ? planner.Blocks(options.kv_tokens)
                                               : ChooseBlocks(planner, options, context, available);
  return Sizes{context, blocks};
}

// Multiply-adds of a row with a token of its context, over those of the row with a layer's weights.
float ContextCost(const ModelSpec& spec) {
  const double hidden = spec.hidden, heads = 2.0 * spec.heads * spec.head_dim;
  const double attention = (heads + 2.0 * spec.kv_heads * spec.head_dim) * hidden;
  const double mlp = (spec.encoder ? 2.0 : 3.0) * spec.intermediate * hidden;
  return static_cast<float>(heads / (attention + mlp));
}

ExecutorInfo InfoOf(const ModelSpec& spec, const ShardPlan& plan, const MemoryPlanOptions& options,
                    const Sizes& sizes) {
  ExecutorInfo info;
  info.stages = plan.pipeline();
  info.max_in_flight = plan.pipeline() + 1;
  info.max_step_tokens = options.max_step_tokens;
  info.max_sequences = options.max_sequences;
  info.max_context = sizes.context;
  info.vocab = spec.vocab;
  info.context_cost = ContextCost(spec);
  if (spec.encoder) {
    info.output_width = spec.encoder->output_width(spec.hidden);
    info.token_types = spec.encoder->token_types;
    return info;
  }
  info.kv_blocks = static_cast<int32_t>(sizes.blocks);
  info.kv_block_size = options.kv_block_size;
  return info;
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
  MemoryPlan memory;
  MemoryPlanOptions& chosen = memory.options;
  chosen = options;
  if (chosen.available_bytes <= 0) chosen.available_bytes = AvailableHostBytes();
  if (chosen.max_step_tokens == 0) chosen.max_step_tokens = DefaultStepTokens(spec, options);
  RETURN_IF_ERROR(CheckOptions(chosen));
  const MemoryPlanner planner(spec, plan, chosen, backend);
  ASSIGN_OR_RETURN(const Sizes sizes, ChooseSizes(spec, planner, chosen));
  const int64_t available = chosen.available_bytes;
  if (planner.Total(sizes.context, sizes.blocks) > available)
    return spec.encoder ? TooMuchAtOnce(planner, chosen, sizes.context, available)
                        : TooMuch(planner, chosen, sizes.context, sizes.blocks, available);
  chosen.max_context = sizes.context;
  chosen.kv_tokens = static_cast<int32_t>(sizes.blocks * options.kv_block_size);
  memory.ranks = planner.Ranks(sizes.context, sizes.blocks);
  for (RankMemory& rank : memory.ranks) rank.available = available;
  memory.info = InfoOf(spec, plan, chosen, sizes);
  return memory;
}

}  // namespace penstock
