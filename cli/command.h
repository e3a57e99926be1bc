#pragma once

#include <functional>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace penstock {

// One subcommand. `prepare` reads the settings: its errors are the user's and exit with 2. `run`
// returns the exit code; its errors exit with 1.
struct Command {
  CLI::App* app;
  std::function<absl::Status()> prepare;
  std::function<absl::StatusOr<int>()> run;
};

Command MakeServeCommand(CLI::App& program);
Command MakeShardCommand(CLI::App& program);
Command MakePlanCommand(CLI::App& program);
Command MakeGenerateCommand(CLI::App& program);
Command MakeEmbedCommand(CLI::App& program);
Command MakeHealthCommand(CLI::App& program);
Command MakeTraceCommand(CLI::App& program);
Command MakeBenchCommand(CLI::App& program);

}  // namespace penstock
