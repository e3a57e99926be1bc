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

// One step to see how long it takes, then as many as fill the time. The bandwidth is measured on
// both sides of them, since that of a virtual machine can change within seconds.
template <typename Measure>
absl::StatusOr<ProfileReport::Section> ProfileSection(const std::string& title, int threads,
                                                      Measure measure) {
  constexpr int kReads = 3;
  ASSIGN_OR_RETURN(const StepProfile first, measure(1));
  const double wanted = first.seconds > 0 ? kSeconds / first.seconds : kMostSteps;
  const double before = MeasureReadBandwidth(threads, kReads);
  ASSIGN_OR_RETURN(StepProfile profile,
                   measure(std::clamp(static_cast<int>(wanted), 3, kMostSteps)));
  const double after = MeasureReadBandwidth(threads, kReads);
  return ProfileReport::Section{title, (before + after) / 2, std::move(profile)};
}

absl::StatusOr<StepProfilerOptions> ChooseOptions(const ProfileOptions& options,
                                                  const ModelSpec& spec) {
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
  return wanted;
}

}  // namespace

absl::Status CheckProfile(const ProfileOptions& options) {
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
  if (options.sequences.empty())
    return absl::InvalidArgumentError("--sequences needs a number, as in 1,16");
  for (const int sequences : options.sequences)
    RETURN_IF_ERROR(check("sequences", sequences, 1, 4096));
  return absl::OkStatus();
}

absl::StatusOr<ProfileReport> ProfileSteps(const ProfileOptions& options) {
  RETURN_IF_ERROR(CheckProfile(options));
  ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint, Checkpoint::Open(options.model));
  ASSIGN_OR_RETURN(const ModelSpec spec, ParseModelSpec(checkpoint->config()));
  ASSIGN_OR_RETURN(const StepProfilerOptions wanted, ChooseOptions(options, spec));
  ASSIGN_OR_RETURN(const std::unique_ptr<StepProfiler> profiler,
                   StepProfiler::Load(*checkpoint, wanted));
  const int threads = wanted.cpu.threads;
  ProfileReport report{.model = absl::StrCat(options.model, ", ", Name(wanted.dtype)),
                       .limits = MeasureLimits(threads),
                       .bf16 = options.compute == "bf16" && wanted.dtype == DType::kBF16};
  const auto add = [&](const std::string& title, auto measure) -> absl::Status {
    ASSIGN_OR_RETURN(ProfileReport::Section section, ProfileSection(title, threads, measure));
    report.sections.push_back(std::move(section));
    return absl::OkStatus();
  };
  for (const int count : options.sequences) {
    if (spec.encoder) break;
    RETURN_IF_ERROR(
        add(absl::StrCat("Decode of ", count, " sequence(s), context ", options.context),
            [&](int steps) { return profiler->Decode(count, options.context, steps); }));
  }
  RETURN_IF_ERROR(
      add(absl::StrCat(spec.encoder ? "A text of " : "A prompt of ", options.prompt, " tokens"),
          [&](int steps) { return profiler->Prefill(options.prompt, steps); }));
  return report;
}

}  // namespace penstock
