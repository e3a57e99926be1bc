#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/bench/length_distribution.h"
#include "cli/bench/load_driver.h"
#include "cli/bench/report.h"
#include "cli/bench/slo.h"
#include "cli/bench/start_times.h"
#include "cli/bench/target.h"
#include "cli/bench/trace_file.h"
#include "cli/bench/workload.h"

namespace penstock {

struct BenchOptions {
  std::string protocol = "penstock";  // or "kserve"
  std::string kind = "generate";      // or "embed"
  Target::Options target;

  // The load: at most one of these; without any, 8 clients in a closed loop.
  std::optional<uint32_t> concurrency;
  std::optional<float> rate;  // requests per second
  std::string trace;          // path

  std::optional<uint32_t> requests;
  std::optional<absl::Duration> duration;
  int32_t warm_up = 0;
  uint64_t seed = 0;

  LengthDistribution prompt_tokens = LengthDistribution::Fixed(128);
  LengthDistribution output_tokens = LengthDistribution::Fixed(64);
  LengthDistribution input_tokens = LengthDistribution::Uniform(8, 128);  // of kind embed
  int32_t batch = 1;
  bool text = false;
  int32_t vocab = 1000;
  int32_t shared_prefix = 0;

  Slo slo;
  std::string metrics;  // URL; empty: not read

  // Filled in by Complete(), which tells of settings that contradict one another or cannot work.
  std::vector<TraceRow> trace_rows = {};
  absl::Status Complete();
  bool open_loop() const { return rate || !trace.empty(); }
};

// One measurement: warm-up, load, summary.
class BenchRun {
 public:
  // Options are completed.
  BenchRun(const BenchOptions& options, LoadDriver::OnProgress on_progress,
           absl::Duration progress_period);

  // Once. Fails when the server's metrics are wanted and cannot be read; whatever becomes of
  // requests is in the report. The report's settings are left empty.
  absl::StatusOr<BenchReport> Run();
  // From any thread: Run returns soon, with what there is.
  void Stop() { driver_.Stop(); }

 private:
  std::unique_ptr<StartTimes> MakeStartTimes() const;
  LoadDriver::Limits MakeLimits() const;
  void WarmUp();

  const BenchOptions options_;
  const Workload workload_;
  const std::unique_ptr<Target> target_;
  LoadDriver driver_;
};

}  // namespace penstock
