#include "server/metrics.h"

#include <prometheus/text_serializer.h>

#include <exception>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "shard/base/status_macros.h"

namespace penstock {

absl::StatusOr<std::unique_ptr<Metrics>> Metrics::Create(const MetricsOptions& options) {
  auto metrics = absl::WrapUnique(new Metrics(options));
  if (options.listen != "off") RETURN_IF_ERROR(metrics->Expose(options.listen));
  return metrics;
}

Metrics::Metrics(const MetricsOptions& options)
    : aliases_(options.aliases),
      registry_(options.model),
      stages_(std::make_shared<StageCollector>(options.model)),
      process_(std::make_shared<ProcessCollector>()),
      calls_(registry_),
      sequences_(registry_),
      load_(registry_.Gauge("model_load_seconds", "From start to loaded weights.")) {
  registry_.Gauge("build_info", "Always 1.", {{"version", PENSTOCK_VERSION}}).Set(1);
}

Metrics::~Metrics() = default;

absl::Status Metrics::Expose(const std::string& listen) {
  try {
    exposer_ = std::make_unique<prometheus::Exposer>(listen, 2);
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", listen, " for metrics (in use?): ", error.what()));
  }
  exposer_->RegisterCollectable(registry_.registry());
  exposer_->RegisterCollectable(stages_);
  exposer_->RegisterCollectable(process_);
  return absl::OkStatus();
}

ReplicaMetrics& Metrics::AddReplica(int stages) {
  MutexLock lock(&mutex_);
  return replicas_.emplace_back(static_cast<int>(replicas_.size()), stages, aliases_, registry_,
                                sequences_, traces_);
}

std::vector<ReplicaSnapshot> Metrics::Replicas() const {
  std::vector<ReplicaSnapshot> snapshots;
  MutexLock lock(&mutex_);
  for (const ReplicaMetrics& replica : replicas_)
    snapshots.push_back({replica.state(), stages_->Look(static_cast<int>(snapshots.size()))});
  return snapshots;
}

std::string Metrics::Text() const {
  std::vector<prometheus::MetricFamily> families = registry_.registry()->Collect();
  for (prometheus::MetricFamily& family : stages_->Collect()) families.push_back(std::move(family));
  for (prometheus::MetricFamily& family : process_->Collect())
    families.push_back(std::move(family));
  return prometheus::TextSerializer().Serialize(families);
}

int Metrics::port() const { return exposer_ ? exposer_->GetListeningPorts().front() : 0; }

}  // namespace penstock
