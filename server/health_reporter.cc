#include "server/health_reporter.h"

#include <chrono>
#include <iterator>
#include <utility>

#include "absl/time/clock.h"

namespace penstock {
namespace {

constexpr std::chrono::milliseconds kInterval{250};
constexpr const char* kReadinessNames[] = {"", "readiness"};

}  // namespace

bool CanServe(const SchedulerState& state, absl::Time now, absl::Duration stall_limit) {
  return state.healthy && (!state.has_work() || now - state.last_progress <= stall_limit);
}

HealthReporter::HealthReporter(grpc::HealthCheckServiceInterface* service,
                               absl::Duration stall_limit, std::vector<std::string> services)
    : service_(service), stall_limit_(stall_limit), names_(std::move(services)) {
  names_.insert(names_.end(), std::begin(kReadinessNames), std::end(kReadinessNames));
  service_->SetServingStatus("liveness", true);
  {
    MutexLock lock(&mutex_);
    Report(false);
  }
  thread_ = std::thread([this] { Loop(); });
}

HealthReporter::~HealthReporter() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void HealthReporter::Serve(Look look) {
  MutexLock lock(&mutex_);
  if (stopping_) return;
  look_ = std::move(look);
  LookAndReport();
}

void HealthReporter::Drain() {
  MutexLock lock(&mutex_);
  stopping_ = true;
  look_.reset();
  Report(false);
}

void HealthReporter::Loop() {
  MutexLock lock(&mutex_);
  const auto stopping = [this] {
    mutex_.AssertHeld();
    return stopping_;
  };
  while (!mutex_.AwaitFor(stopping, kInterval))
    if (look_) LookAndReport();
}

void HealthReporter::LookAndReport() { Report(CanServe((*look_)(), absl::Now(), stall_limit_)); }

void HealthReporter::Report(bool serving) {
  if (reported_ == serving) return;
  reported_ = serving;
  for (const std::string& name : names_) service_->SetServingStatus(name, serving);
}

}  // namespace penstock
