// `penstock plan`: where a model would go and what it would take, without loading it.

#include <cstdio>
#include <memory>

#include "cli/command.h"
#include "cli/serve_options.h"
#include "shard/base/status_macros.h"

namespace penstock {

Command MakePlanCommand(CLI::App& program) {
  CLI::App* app = program.add_subcommand("plan", "Print the placement and memory plan of a model");
  auto settings = std::make_shared<ServeSettings>(*app);
  const auto run = [settings]() -> absl::StatusOr<int> {
    ASSIGN_OR_RETURN(const ServingPlan plan, settings->Plan());
    std::fputs(FormatPlan(plan).c_str(), stdout);
    return 0;
  };
  return {app, [settings] { return settings->Read(); }, run};
}

}  // namespace penstock
