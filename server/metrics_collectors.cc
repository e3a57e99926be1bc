#include "server/metrics_collectors.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_type.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shard/base/host_memory.h"

namespace penstock {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

MetricFamily Family(std::string name, std::string help, MetricType type) {
  MetricFamily family;
  family.name = std::move(name);
  family.help = std::move(help);
  family.type = type;
  return family;
}

void Add(double value, std::vector<ClientMetric::Label> labels, MetricFamily* family) {
  ClientMetric metric;
  metric.label = std::move(labels);
  if (family->type == MetricType::Counter)
    metric.counter.value = value;
  else
    metric.gauge.value = value;
  family->metric.push_back(std::move(metric));
}

MetricFamily Single(const char* name, const char* help, MetricType type, double value) {
  MetricFamily family = Family(name, help, type);
  Add(value, {}, &family);
  return family;
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

double OpenFiles() {
  std::error_code error;
  const std::filesystem::directory_iterator begin("/proc/self/fd", error);
  if (error) return -1;
  return static_cast<double>(std::distance(begin, std::filesystem::directory_iterator()));
}

// Boot time plus the 22nd field of /proc/self/stat (clock ticks); the fields are counted from the
// last ')' because the program's name may hold anything.
double StartTime() {
  std::ifstream boot_file("/proc/stat"), stat_file("/proc/self/stat");
  std::string word, line;
  double boot = -1;
  while (boot_file >> word)
    if (word == "btime") boot_file >> boot;
  std::getline(stat_file, line);
  const size_t name_end = line.rfind(')');
  if (boot < 0 || name_end == std::string::npos) return -1;
  std::istringstream fields(line.substr(name_end + 1));
  for (int field = 3; field < 22; ++field) fields >> word;
  double ticks = -1;
  if (!(fields >> ticks)) return -1;
  return boot + ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

void StageCollector::Watch(const Executor* executor, int replica) {
  MutexLock lock(&mutex_);
  if (executor == nullptr) {
    executors_.erase(replica);
  } else {
    executors_[replica] = executor;
  }
}

PipelineStats StageCollector::Look(int replica) const {
  MutexLock lock(&mutex_);
  const auto found = executors_.find(replica);
  return found == executors_.end() ? PipelineStats{} : found->second->Stats();
}

std::vector<MetricFamily> StageCollector::Collect() const {
  MutexLock lock(&mutex_);
  if (executors_.empty()) return {};
  std::vector<MetricFamily> families = CollectStages();
  for (MetricFamily& family : CollectRanks()) families.push_back(std::move(family));
  return families;
}

std::vector<MetricFamily> StageCollector::CollectRanks() const {
  MetricFamily up =
      Family("penstock_shard_up", "Whether the rank's process can be used.", MetricType::Gauge);
  MetricFamily restarts = Family("penstock_shard_restarts_total",
                                 "Times the rank was brought back.", MetricType::Counter);
  MetricFamily resident =
      Family("penstock_shard_resident_bytes", "Memory of the rank's process.", MetricType::Gauge);
  for (const auto& [replica, executor] : executors_) {
    const PipelineStats stats = executor->Stats();
    for (size_t i = 0; i < stats.ranks.size(); ++i) {
      const std::vector<ClientMetric::Label> labels = {
          {"model", model_}, {"replica", absl::StrCat(replica)}, {"rank", absl::StrCat(i)}};
      Add(stats.ranks[i].up ? 1 : 0, labels, &up);
      Add(static_cast<double>(stats.ranks[i].restarts), labels, &restarts);
      Add(static_cast<double>(stats.ranks[i].resident_bytes), labels, &resident);
    }
  }
  if (up.metric.empty()) return {};
  return {std::move(up), std::move(restarts), std::move(resident)};
}

std::vector<MetricFamily> StageCollector::CollectStages() const {
  MetricFamily busy =
      Family("penstock_stage_busy_seconds_total", "Computing.", MetricType::Counter);
  MetricFamily bubble = Family("penstock_stage_bubble_seconds_total",
                               "Not computing though a step was in flight.", MetricType::Counter);
  MetricFamily idle =
      Family("penstock_stage_idle_seconds_total", "No step in flight.", MetricType::Counter);
  MetricFamily transfer = Family("penstock_stage_transfer_seconds_total",
                                 "Moving activations between stages.", MetricType::Counter);
  for (const auto& [replica, executor] : executors_) {
    const PipelineStats stats = executor->Stats();
    for (size_t i = 0; i < stats.stages.size(); ++i) {
      const std::vector<ClientMetric::Label> labels = {
          {"model", model_}, {"replica", absl::StrCat(replica)}, {"stage", absl::StrCat(i)}};
      Add(stats.stages[i].busy, labels, &busy);
      Add(std::max(0.0, stats.active - stats.stages[i].busy), labels, &bubble);
      Add(std::max(0.0, stats.elapsed - stats.active), labels, &idle);
      Add(stats.stages[i].transfer, labels, &transfer);
    }
  }
  return {std::move(busy), std::move(bubble), std::move(idle), std::move(transfer)};
}

std::vector<MetricFamily> ProcessCollector::Collect() const {
  std::vector<MetricFamily> families;
  families.push_back(Single("process_cpu_seconds_total", "User and system CPU time.",
                            MetricType::Counter, CpuSeconds()));
  if (const int64_t bytes = ResidentBytes(); bytes > 0)
    families.push_back(Single("process_resident_memory_bytes", "Resident memory.",
                              MetricType::Gauge, static_cast<double>(bytes)));
  if (const double files = OpenFiles(); files >= 0)
    families.push_back(
        Single("process_open_fds", "Open file descriptors.", MetricType::Gauge, files));
  if (const double start = StartTime(); start >= 0)
    families.push_back(Single("process_start_time_seconds", "Start, in seconds since 1970.",
                              MetricType::Gauge, start));
  return families;
}

}  // namespace penstock
