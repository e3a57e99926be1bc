#include "cli/bench/bench_run.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/bench/metrics_scraper.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

constexpr int32_t kUsualConcurrency = 8;
constexpr int64_t kUsualRequests = 100;
constexpr int32_t kWarmUpConcurrency = 4;  // of an open loop

absl::Status CheckLoad(const BenchOptions& options) {
  const int loads =
      (options.concurrency ? 1 : 0) + (options.rate ? 1 : 0) + (options.trace.empty() ? 0 : 1);
  if (loads > 1)
    return absl::InvalidArgumentError(
        "--concurrency (closed loop), --rate and --trace (open loop) exclude one another");
  if (options.concurrency && (*options.concurrency < 1 || *options.concurrency > 1 << 20))
    return absl::InvalidArgumentError("--concurrency: must be in [1, 1048576]");
  if (options.rate && !(*options.rate > 0 && *options.rate <= 1e6f))
    return absl::InvalidArgumentError("--rate: must be above 0 and at most 1e6");
  if (options.requests && *options.requests < 1)
    return absl::InvalidArgumentError("--requests: must be at least 1");
  if (options.duration && *options.duration <= absl::ZeroDuration())
    return absl::InvalidArgumentError("--duration: must be above 0");
  return absl::OkStatus();
}

absl::Status CheckKserve(const BenchOptions& options) {
  if (options.target.model.empty())
    return absl::InvalidArgumentError("--protocol kserve needs --model");
  if (options.target.priority.value_or(0) < 0)
    return absl::InvalidArgumentError("--priority: must be at least 0 with --protocol kserve");
  return absl::OkStatus();
}

absl::Status CheckKind(const BenchOptions& options) {
  const bool embed = options.kind == "embed";
  if (options.target.unary && (embed || options.protocol != "kserve"))
    return absl::InvalidArgumentError(
        "--unary goes with --protocol kserve and --kind generate alone");
  if (embed && (options.slo.ttft || options.slo.itl || options.slo.tpot))
    return absl::InvalidArgumentError("--slo: requests of --kind embed have e2e alone");
  if (!embed && options.batch != 1)
    return absl::InvalidArgumentError("--batch goes with --kind embed alone");
  return absl::OkStatus();
}

// With lengths that are all below it, the prefix would be the whole prompt, and every prompt the
// same.
absl::Status CheckPrefix(const BenchOptions& options) {
  int32_t most = options.target.embed ? options.input_tokens.most() : options.prompt_tokens.most();
  if (!options.trace_rows.empty()) most = 0;
  for (const TraceRow& row : options.trace_rows) most = std::max(most, row.prompt_tokens);
  if (options.shared_prefix <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--shared-prefix is ", options.shared_prefix,
                                                 ", longer than any prompt (", most, ")"));
}

std::unique_ptr<Target> MakeTarget(const BenchOptions& options) {
  if (options.protocol == "kserve") return MakeKserveTarget(options.target);
  return options.target.embed ? MakeEncodingTarget(options.target)
                              : MakeGenerationTarget(options.target);
}

Workload::Options MakeWorkload(const BenchOptions& options) {
  Workload::Options workload;
  workload.seed = options.seed;
  workload.as_text = options.text || options.protocol == "kserve";
  workload.vocab = options.vocab;
  workload.inputs = options.batch;
  workload.prompt_tokens = options.target.embed ? options.input_tokens : options.prompt_tokens;
  workload.output_tokens = options.output_tokens;
  workload.shared_prefix = options.shared_prefix;
  workload.trace = options.trace_rows;
  return workload;
}

}  // namespace

absl::Status BenchOptions::Complete() {
  target.embed = kind == "embed";
  if (target.address.empty()) return absl::InvalidArgumentError("--address: is empty");
  RETURN_IF_ERROR(CheckLoad(*this));
  RETURN_IF_ERROR(CheckKind(*this));
  if (protocol == "kserve") RETURN_IF_ERROR(CheckKserve(*this));
  if (!metrics.empty() && !absl::StartsWith(metrics, "http://") &&
      !absl::StartsWith(metrics, "https://"))
    return absl::InvalidArgumentError(absl::StrCat(
        "--metrics: expected a URL like http://127.0.0.1:9464/metrics, not \"", metrics, "\""));
  if (!trace.empty()) {
    ASSIGN_OR_RETURN(trace_rows, ReadTrace(trace));
  }
  return CheckPrefix(*this);
}

BenchRun::BenchRun(const BenchOptions& options, LoadDriver::OnProgress on_progress,
                   absl::Duration progress_period)
    : options_(options),
      workload_(MakeWorkload(options)),
      target_(MakeTarget(options)),
      driver_(*target_, workload_, std::move(on_progress), progress_period) {}

absl::StatusOr<BenchReport> BenchRun::Run() {
  if (!options_.metrics.empty())
    RETURN_IF_ERROR(FetchUrl(options_.metrics, absl::Seconds(5)).status());
  WarmUp();
  BenchReport report;
  report.started = absl::Now();
  report.embed = options_.target.embed;
  report.warm_up = options_.warm_up;
  const RunClock clock;
  std::optional<MetricsScraper> scraper;
  if (!options_.metrics.empty()) scraper.emplace(options_.metrics, clock);
  const std::unique_ptr<StartTimes> times = MakeStartTimes();
  report.records = driver_.Run(*times, MakeLimits(), clock);
  if (scraper) report.server = BuildIntervals(scraper->Stop());
  report.summary = SummarizeRun(report.records, options_.slo);
  report.series = BuildLoadSeries(report.records, report.summary);
  return report;
}

std::unique_ptr<StartTimes> BenchRun::MakeStartTimes() const {
  if (options_.rate) return std::make_unique<PoissonArrivals>(*options_.rate, options_.seed);
  if (!options_.trace.empty()) return std::make_unique<TraceArrivals>(workload_.trace());
  return std::make_unique<ClosedLoop>(
      static_cast<int32_t>(options_.concurrency.value_or(kUsualConcurrency)));
}

LoadDriver::Limits BenchRun::MakeLimits() const {
  LoadDriver::Limits limits;
  limits.duration = options_.duration.value_or(absl::InfiniteDuration());
  limits.requests = options_.requests ? int64_t{*options_.requests}
                    : options_.duration || !options_.trace.empty()
                        ? std::numeric_limits<int64_t>::max()
                        : kUsualRequests;
  return limits;
}

void BenchRun::WarmUp() {
  if (options_.warm_up == 0) return;
  const uint32_t clients =
      options_.open_loop() ? kWarmUpConcurrency : options_.concurrency.value_or(kUsualConcurrency);
  ClosedLoop times(std::min(static_cast<int32_t>(clients), options_.warm_up));
  LoadDriver::Limits limits;
  limits.first_index = -int64_t{options_.warm_up};
  limits.requests = options_.warm_up;
  driver_.Run(times, limits, RunClock());
}

}  // namespace penstock
