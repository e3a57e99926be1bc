#include "cli/bench/profile_run.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shard/base/cpus.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

constexpr double kSeconds = 1;  // of steps of one kind
constexpr int kMostSteps = 1000;

absl::Status CheckOptions(const ProfileOptions& options) {
  constexpr int kMost = 1 << 20;
  const auto check = [](const char* name, int value, int least, int most) {
    if (value >= least && value <= most) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, " must be ", least, " to ", most, ", is ", value));
  };
  if (options.model.empty())
    return absl::InvalidArgumentError("--profile needs --model, the path of a checkpoint");
  RETURN_IF_ERROR(check("threads", options.threads, 0, 1024));
  RETURN_IF_ERROR(check("context", options.context, 1, kMost));
  RETURN_IF_ERROR(check("prompt", options.prompt, 1, kMost));
  for (const int sequences : options.sequences)
    RETURN_IF_ERROR(check("sequences", sequences, 1, 4096));
  return absl::OkStatus();
}

// One step to see how long it takes, then as many as fill the time.
template <typename Measure>
absl::StatusOr<StepProfile> FillTime(Measure measure) {
  ASSIGN_OR_RETURN(const StepProfile first, measure(1));
  const double wanted = first.seconds > 0 ? kSeconds / first.seconds : kMostSteps;
  return measure(std::clamp(static_cast<int>(wanted), 3, kMostSteps));
}

}  // namespace

absl::StatusOr<ProfileReport> ProfileSteps(const ProfileOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint, Checkpoint::Open(options.model));
  ASSIGN_OR_RETURN(const ModelSpec spec, ParseModelSpec(checkpoint->config()));
  StepProfilerOptions wanted;
  wanted.cpu.threads = options.threads > 0 ? options.threads : AvailableCpus();
  wanted.cpu.compute = options.compute;
  wanted.dtype = spec.stored_dtype;
  if (options.dtype != "auto") {
    ASSIGN_OR_RETURN(wanted.dtype, ParseDType(options.dtype));
  }
  const int sequences = *std::max_element(options.sequences.begin(), options.sequences.end());
  wanted.max_sequences = spec.encoder ? 1 : sequences;
  wanted.max_context = spec.encoder ? options.prompt : std::max(options.context, options.prompt);
  wanted.max_step_tokens = std::max(sequences, options.prompt);
  ASSIGN_OR_RETURN(const std::unique_ptr<StepProfiler> profiler,
                   StepProfiler::Load(*checkpoint, wanted));

  ProfileReport report{.model = absl::StrCat(options.model, ", ", Name(wanted.dtype)),
                       .limits = MeasureLimits(wanted.cpu.threads),
                       .bf16 = options.compute == "bf16" && wanted.dtype == DType::kBF16,
                       .sections = {}};
  for (const int count : options.sequences) {
    if (spec.encoder) break;
    ASSIGN_OR_RETURN(StepProfile profile, FillTime([&](int steps) {
                       return profiler->Decode(count, options.context, steps);
                     }));
    report.sections.push_back(
        {absl::StrCat("Decode of ", count, " sequence(s), context ", options.context),
         std::move(profile)});
  }
  ASSIGN_OR_RETURN(StepProfile profile,
                   FillTime([&](int steps) { return profiler->Prefill(options.prompt, steps); }));
  report.sections.push_back(
      {absl::StrCat(spec.encoder ? "A text of " : "A prompt of ", options.prompt, " tokens"),
       std::move(profile)});
  return report;
}

}  // namespace penstock
