#include "shard/base/cpus.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>

namespace penstock {
namespace {

constexpr int kNoLimit = 1 << 20;

int AffinityCpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());  // more than 1024 processors
}

int CpusOf(double quota, double period) {
  if (quota <= 0 || period <= 0) return kNoLimit;
  return static_cast<int>(std::min(std::ceil(quota / period), double{kNoLimit}));
}

// A cgroup v2 cpu.max file: "max 100000" or "150000 100000".
int QuotaOfV2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  double quota = 0, period = 0;
  if (!(file >> quota >> period)) return kNoLimit;
  return CpusOf(quota, period);
}

int QuotaOfV1(const std::string& folder) {
  std::ifstream quota_file(folder + "/cpu.cfs_quota_us");
  std::ifstream period_file(folder + "/cpu.cfs_period_us");
  double quota = 0, period = 0;
  if (!(quota_file >> quota) || !(period_file >> period)) return kNoLimit;
  return CpusOf(quota, period);
}

// This process's folder below the cgroup v2 mount, "" at the root.
std::string CgroupPath() {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    if (line.starts_with("0::/")) return line == "0::/" ? "" : line.substr(3);
  }
  return "";
}

// A quota of any enclosing group binds.
int CgroupCpus() {
  const std::string root = "/sys/fs/cgroup";
  int cpus = std::min(QuotaOfV2(root), QuotaOfV1(root + "/cpu"));
  std::string path = CgroupPath();
  while (!path.empty()) {
    cpus = std::min(cpus, QuotaOfV2(root + path));
    path.resize(path.rfind('/'));
  }
  return cpus;
}

}  // namespace

int AvailableCpus() { return std::max(1, std::min(AffinityCpus(), CgroupCpus())); }

}  // namespace penstock
