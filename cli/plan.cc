// `penstock plan`: where a model would go and what it would take, without loading it.

#include <cstdio>
#include <memory>

#include "cli/command.h"
#include "cli/serve_options.h"
#include "shard/base/status_macros.h"

namespace penstock {

Command MakePlanCommand(CLI::App& program) {
  struct State {
    ServeOptions options;
    SettingTable table;
    std::string config;
  };
  auto state = std::make_shared<State>();
  CLI::App* app = program.add_subcommand("plan", "Print the placement and memory plan of a model");
  app->add_option("--config", state->config, "YAML file as for serve; flags win");
  DeclareSettings(&state->options, &state->table);
  state->table.DeclareFlags(*app);

  const auto prepare = [state]() -> absl::Status {
    if (!state->config.empty()) RETURN_IF_ERROR(state->table.LoadYaml(state->config));
    RETURN_IF_ERROR(state->table.ApplyFlags());
    return state->options.Complete();
  };
  const auto run = [state]() -> absl::StatusOr<int> {
    ASSIGN_OR_RETURN(const ServingPlan plan, PlanServing(state->options.model));
    std::fputs(FormatPlan(plan).c_str(), stdout);
    return 0;
  };
  return {app, prepare, run};
}

}  // namespace penstock
