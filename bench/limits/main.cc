// What this machine can do at most, and what it is.
//
//   limits_bench [--json | --bandwidth]
//
// --bandwidth: of all processors, in GB/s, within a fraction of a second.

#include <sys/utsname.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "nlohmann/json.hpp"
#include "shard/backend/cpu/isa.h"
#include "shard/backend/cpu/machine_limits.h"
#include "shard/base/cpus.h"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

// What follows "key" and a colon on a line of the file.
std::string Find(const char* path, const std::string& key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    const size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

Json Facts() {
  utsname system{};
  uname(&system);
  Json caches = Json::object();
  for (int i = 0; i < 8; ++i) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i);
    const std::string level = FirstLine(folder + "/level");
    if (!level.empty())
      caches["L" + level + " " + FirstLine(folder + "/type")] = FirstLine(folder + "/size");
  }
  return {{"processor", Find("/proc/cpuinfo", "model name")},
          {"architecture", system.machine},
          {"cpus", AvailableCpus()},
          {"caches", caches},
          {"memory", Find("/proc/meminfo", "MemTotal")},
          {"kernel", system.release},
          {"huge_pages", FirstLine("/sys/kernel/mm/transparent_hugepage/enabled")},
          {"compiler", __VERSION__},
          {"instruction_set", AvailableIsas().front().name}};
}

Json ToJson(const MachineLimits& limits) {
  return {{"threads", limits.threads},        {"read_gbytes_per_s", limits.read_bandwidth / 1e9},
          {"fp32_gflops", limits.fp32 / 1e9}, {"bf16_gflops", limits.bf16 / 1e9},
          {"int8_gops", limits.int8 / 1e9},   {"handover_us", limits.handover * 1e6}};
}

void PrintText(const Json& report) {
  for (const auto& [name, value] : report["machine"].items())
    std::printf("%-16s %s\n", name.c_str(),
                value.is_string() ? value.get<std::string>().c_str() : value.dump().c_str());
  for (const Json& limits : report["limits"])
    std::printf(
        "%d thread(s): read %.1f GB/s, fp32 %.0f GFLOP/s, bf16 %.0f GFLOP/s, int8 %.0f GOP/s, "
        "hand-over %.2f us\n",
        limits["threads"].get<int>(), limits["read_gbytes_per_s"].get<double>(),
        limits["fp32_gflops"].get<double>(), limits["bf16_gflops"].get<double>(),
        limits["int8_gops"].get<double>(), limits["handover_us"].get<double>());
}

int Main(int argc, char** argv) {
  const std::string option = argc == 2 ? argv[1] : "";
  const bool json = option == "--json";
  if (option == "--bandwidth") {
    std::printf("%.1f\n", MeasureReadBandwidth(AvailableCpus(), 3) / 1e9);
    return 0;
  }
  if (argc > 1 && !json) {
    std::fprintf(stderr, "usage: limits_bench [--json | --bandwidth]\n");
    return 2;
  }
  Json report = {{"machine", Facts()}, {"limits", Json::array()}};
  report["limits"].push_back(ToJson(MeasureLimits(1)));
  if (AvailableCpus() > 1) report["limits"].push_back(ToJson(MeasureLimits(AvailableCpus())));
  if (json) {
    std::printf("%s\n", report.dump(2).c_str());
  } else {
    PrintText(report);
  }
  return 0;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) { return penstock::Main(argc, argv); }
