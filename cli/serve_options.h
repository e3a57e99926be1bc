#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/setting_table.h"
#include "scheduler/request_batcher.h"
#include "scheduler/scheduler.h"
#include "server/metrics.h"
#include "server/server.h"
#include "server/serving_plan.h"
#include "shard/remote/credentials.h"

namespace penstock {

// Where ranks run, when not as threads of the server, and how long others are waited for.
struct WorkerSettings {
  std::string places = "auto";
  std::string spares;
  ShardSecurity security;
  bool link_test = true;
  absl::Duration silence = absl::Seconds(10);
  absl::Duration join_timeout = absl::Seconds(10);
  absl::Duration start_timeout = absl::Seconds(60);

  // Whether they are threads of the server: "auto" has them be so if there is one only.
  bool threads(int ranks) const { return places == "threads" || (places == "auto" && ranks == 1); }
  bool remote() const { return places != "auto" && places != "threads" && places != "processes"; }
};

// Everything `serve` and `plan` can be told: the options of the parts, side by side.
struct ServeOptions {
  ModelOptions model;
  SchedulerOptions scheduler;  // of a model that generates
  BatcherOptions batcher;      // of a one-shot model
  ServerOptions server;
  RequestLimits limits;
  MetricsOptions metrics;
  WorkerSettings workers;
  bool refuse_late = false;
  absl::Duration step_timeout = absl::Seconds(60);
  std::string batching = "continuous";
  std::string queue_timeout_action = "reject";
  std::string log_level = "info";

  // Fills what follows from other options and checks what must agree.
  absl::Status Complete();

 private:
  absl::Status CompleteBatching();
  absl::Status CompleteWorkers() const;
};

// Declares each option once, for flags and file alike.
void DeclareSettings(ServeOptions* options, SettingTable* table);

// InvalidArgument for what was set in `table` and has no meaning for a model of this kind.
absl::Status CheckModelSettings(const SettingTable& table, bool encoder);

// A command's ServeOptions, from --config and the flags of the same names; flags win.
class ServeSettings {
 public:
  explicit ServeSettings(CLI::App& app);  // declares the flags; `app` outlives it
  absl::Status Read();                    // once the command line has been parsed

  // Also checks the settings against the model that they are for.
  absl::StatusOr<ServingPlan> Plan() const;

  const ServeOptions& options() const { return options_; }
  std::string ToYaml() const { return table_.ToYaml(); }

 private:
  ServeOptions options_;
  SettingTable table_;
  std::string config_;
};

}  // namespace penstock
