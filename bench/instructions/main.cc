// Fixed workloads for a tool that counts instructions: scripts/checks/instruction-counts.sh.
//
//   instruction_bench          names the workloads and what they were built with, as JSON
//   instruction_bench NAME     runs one; what is to be counted is within penstock_counted()

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/instructions/counted.h"
#include "bench/instructions/workload.h"
#include "nlohmann/json.hpp"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

std::vector<Workload> AllWorkloads() {
  std::vector<Workload> all;
  for (const auto& some :
       {KernelWorkloads(), StepWorkloads(), SchedulerWorkloads(), TextWorkloads()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

void PrintBuild() {
  nlohmann::json names = nlohmann::json::array();
  for (const Workload& workload : AllWorkloads()) names.push_back(workload.name);
  const nlohmann::json build = {{"compiler", PENSTOCK_COMPILER},
                                {"compiler_version", PENSTOCK_COMPILER_VERSION},
                                {"processor", PENSTOCK_PROCESSOR},
                                {"flags", PENSTOCK_FLAGS},
                                {"isa", kCountedIsa},
                                {"workloads", names}};
  std::printf("%s\n", build.dump().c_str());
}

absl::Status RunWorkload(const Workload& workload) {
  ASSIGN_OR_RETURN(const Work work, workload.prepare());
  RETURN_IF_ERROR(work());
  absl::Status status;
  penstock_counted(work, &status);
  return status;
}

absl::Status RunNamed(const std::string& name) {
  for (const Workload& workload : AllWorkloads())
    if (workload.name == name) return RunWorkload(workload);
  return absl::NotFoundError(absl::StrCat("there is no workload \"", name, "\""));
}

int Main(int argc, char** argv) {
  if (argc == 1) {
    PrintBuild();
    return 0;
  }
  const absl::Status status =
      argc == 2 ? RunNamed(argv[1]) : absl::InvalidArgumentError("usage: instruction_bench [NAME]");
  if (status.ok()) return 0;
  std::fprintf(stderr, "instruction_bench: %s\n", std::string(status.message()).c_str());
  return 2;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) { return penstock::Main(argc, argv); }
