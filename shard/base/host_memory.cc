#include "shard/base/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace penstock {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// "MemAvailable:  12345 kB" in /proc/meminfo.
int64_t MachineBytes() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  for (int64_t value = 0; file >> key >> value; std::getline(file, unit))
    if (key == "MemAvailable:") return value << 10;
  return kNoLimit;
}

// A file with one number; kNoLimit for "max" or no file.
int64_t ReadBytes(const std::string& path) {
  std::ifstream file(path);
  int64_t value = 0;
  return file >> value ? value : kNoLimit;
}

int64_t Left(const std::string& limit_file, const std::string& usage_file) {
  const int64_t limit = ReadBytes(limit_file), used = ReadBytes(usage_file);
  if (limit == kNoLimit || used == kNoLimit) return kNoLimit;
  return std::max<int64_t>(limit - used, 0);
}

int64_t CgroupBytes() {
  const std::string root = "/sys/fs/cgroup";
  return std::min(
      Left(root + "/memory.max", root + "/memory.current"),
      Left(root + "/memory/memory.limit_in_bytes", root + "/memory/memory.usage_in_bytes"));
}

}  // namespace

int64_t AvailableHostBytes() { return std::min(MachineBytes(), CgroupBytes()); }

// Second field of /proc/self/statm, in pages.
int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0, resident = 0;
  return file >> size >> resident ? resident * sysconf(_SC_PAGESIZE) : 0;
}

}  // namespace penstock
