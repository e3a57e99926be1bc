#include "server/serving_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "server/text/unicode.h"
#include "shard/base/host_memory.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

absl::StatusOr<DType> ChooseDType(absl::string_view option, const std::string& value,
                                  DType automatic) {
  if (value == "auto") return automatic;
  const absl::StatusOr<DType> dtype = ParseDType(value);
  if (!dtype.ok() || *dtype == DType::kI32)
    return absl::InvalidArgumentError(
        absl::StrCat(option, " is \"", value, "\"; it must be auto, f32, f16 or bf16"));
  return *dtype;
}

// The last part of the path, without a file's ".gguf".
std::string NameFrom(absl::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  path = path.substr(path.rfind('/') + 1);
  absl::ConsumeSuffix(&path, ".gguf");
  return std::string(path);
}

// More than anybody has.
constexpr int64_t kElsewhere = int64_t{1} << 60;

MemoryPlanOptions MemoryOptions(const ModelOptions& options, DType dtype, DType kv_dtype) {
  MemoryPlanOptions memory;
  memory.dtype = dtype;
  memory.kv_dtype = kv_dtype;
  memory.max_context = options.max_context;
  memory.max_sequences = options.max_sequences;
  memory.max_step_tokens = options.max_step_tokens;
  memory.kv_tokens = options.kv_tokens;
  if (options.elsewhere)
    memory.available_bytes = kElsewhere;
  else if (options.replicas > 1)
    memory.available_bytes = AvailableHostBytes() / options.replicas;
  return memory;
}

std::string FormatRank(const ShardPlan& shards, const RankMemory& memory) {
  const int stage = shards.stage(memory.rank), tensor = shards.tensor_rank(memory.rank);
  const Range layers = shards.Layers(stage), heads = shards.Heads(tensor);
  return absl::StrFormat("%4d  %5d  %-9s  %-8s  %-12s %11s %11s %11s %11s\n", memory.rank, stage,
                         absl::StrCat(layers.begin, "..", layers.end - 1),
                         absl::StrCat(heads.begin, "..", heads.end - 1), memory.device,
                         FormatBytes(memory.weights), FormatBytes(memory.kv),
                         FormatBytes(memory.scratch + memory.comm), FormatBytes(memory.total()));
}

std::string FormatModel(const ModelSpec& spec) {
  std::string text = absl::StrFormat("%s, %d layers, hidden %d, %d heads", spec.architecture,
                                     spec.layers, spec.hidden, spec.heads);
  if (!spec.encoder) absl::StrAppend(&text, " over ", spec.kv_heads, " KV heads");
  absl::StrAppend(&text, ", vocabulary ", spec.vocab);
  if (!spec.encoder) return text;
  const EncoderSpec& encoder = *spec.encoder;
  if (encoder.pooling == Pooling::kClassify)
    return absl::StrCat(text, ", ", encoder.labels.size(), " label(s)");
  return absl::StrCat(text, ", embeds as ", encoder.normalize ? "the normalized " : "the ",
                      encoder.pooling == Pooling::kCls ? "first row" : "mean of the rows");
}

std::string FormatLimits(const ExecutorInfo& info) {
  std::string text = absl::StrFormat("context %d tokens, %d sequences, %d tokens a step",
                                     info.max_context, info.max_sequences, info.max_step_tokens);
  if (info.kv_blocks > 0)
    absl::StrAppendFormat(&text, ", KV cache %d tokens (%d blocks of %d)",
                          info.kv_blocks * info.kv_block_size, info.kv_blocks, info.kv_block_size);
  return absl::StrCat(text, "\n");
}

}  // namespace

absl::StatusOr<ServingPlan> PlanServing(const ModelOptions& options) {
  if (options.path.empty()) return absl::InvalidArgumentError("--model is missing");
  ServingPlan plan;
  ASSIGN_OR_RETURN(plan.checkpoint, Checkpoint::Open(options.path));
  plan.model_name = options.served_name.empty() ? NameFrom(options.path) : options.served_name;
  if (!IsValidUtf8(plan.model_name))
    return absl::InvalidArgumentError("--served-model-name is not UTF-8");
  absl::StatusOr<ModelSpec> spec = ParseModelSpec(plan.checkpoint->config());
  if (!spec.ok())
    return absl::Status(spec.status().code(),
                        absl::StrCat(options.path, ": ", spec.status().message()));
  plan.spec = *std::move(spec);
  plan.replicas = options.replicas;
  if (plan.spec.encoder && plan.replicas > 1)
    return absl::InvalidArgumentError(
        absl::StrCat("--replicas is ", plan.replicas, "; a one-shot model has one replica only"));
  ASSIGN_OR_RETURN(const DType dtype,
                   ChooseDType("--dtype", options.dtype, plan.spec.stored_dtype));
  ASSIGN_OR_RETURN(const DType kv_dtype, ChooseDType("--kv-dtype", options.kv_dtype, dtype));

  ShardPlanOptions cut;
  cut.tensor = options.tensor;
  cut.pipeline = options.pipeline;
  cut.layers = options.layers;
  ASSIGN_OR_RETURN(plan.shards, ShardPlan::Create(plan.spec, cut));

  CpuOptions cpu = options.cpu;
  cpu.threads = 1;  // this backend only answers how large things are
  ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, MakeCpuBackend(cpu));
  absl::StatusOr<MemoryPlan> memory =
      PlanMemory(plan.spec, plan.shards, MemoryOptions(options, dtype, kv_dtype), *backend);
  if (!memory.ok() && options.replicas > 1)
    return absl::Status(memory.status().code(),
                        absl::StrCat("each of ", options.replicas, " replicas has its part of the ",
                                     "memory: ", memory.status().message()));
  ASSIGN_OR_RETURN(plan.memory, std::move(memory));
  return plan;
}

std::string FormatBytes(int64_t bytes) {
  const double value = static_cast<double>(bytes);
  if (bytes >= int64_t{1} << 30) return absl::StrFormat("%.2f GiB", value / (1 << 30));
  if (bytes >= int64_t{1} << 20) return absl::StrFormat("%.1f MiB", value / (1 << 20));
  return absl::StrFormat("%.1f KiB", value / (1 << 10));
}

std::string FormatPlan(const ServingPlan& plan) {
  const MemoryPlanOptions& memory = plan.memory.options;
  const std::string cache =
      plan.spec.encoder ? "" : absl::StrCat(", KV cache ", Name(memory.kv_dtype));
  std::string text = absl::StrFormat(
      "%s: %s\nweights %s%s, tensor %d x pipeline %d = %d rank(s)%s\n", plan.model_name,
      FormatModel(plan.spec), Name(memory.dtype), cache, plan.shards.tensor(),
      plan.shards.pipeline(), plan.shards.ranks(),
      plan.replicas > 1 ? absl::StrCat(", in each of ", plan.replicas, " replicas") : "");
  absl::StrAppendFormat(&text, "%4s  %5s  %-9s  %-8s  %-12s %11s %11s %11s %11s\n", "rank", "stage",
                        "layers", "heads", "device", "weights", "KV", "scratch", "total");
  int64_t total = 0;
  for (const RankMemory& rank : plan.memory.ranks) {
    absl::StrAppend(&text, FormatRank(plan.shards, rank));
    total += rank.total();
  }
  const int64_t available = plan.memory.ranks.empty() ? 0 : plan.memory.ranks.front().available;
  absl::StrAppendFormat(&text, "total %s of %s%s\n", FormatBytes(total),
                        available >= kElsewhere ? "what the workers' hosts have"
                                                : FormatBytes(available) + " available",
                        plan.replicas > 1 ? " to each replica" : "");
  return absl::StrCat(text, FormatLimits(plan.memory.info));
}

}  // namespace penstock
