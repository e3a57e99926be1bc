#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace penstock {

// Upper bounds, ascending; the last bucket is +Inf.
using Buckets = std::vector<double>;

// From half a millisecond to more than five hours, and twice as dense up to a second: what takes
// long must not vanish in +Inf.
const Buckets& LongSeconds();   // of calls, queues and sequences
const Buckets& ShortSeconds();  // of steps and between tokens
const Buckets& StageSeconds();  // of one stage's part of a step
const Buckets& TokenCounts();   // of one sequence
const Buckets& BatchTokens();
const Buckets& BatchSizes();

// Makes the families penstock_NAME, every child with the label `model`. A reference stays valid as
// long as the registry. Thread-safe; not for hot paths: making or finding a child takes a lock.
class MetricRegistry {
 public:
  explicit MetricRegistry(std::string model)
      : model_(std::move(model)), registry_(std::make_shared<prometheus::Registry>()) {}

  prometheus::Counter& Counter(const std::string& name, const std::string& help,
                               prometheus::Labels labels = {});
  prometheus::Gauge& Gauge(const std::string& name, const std::string& help,
                           prometheus::Labels labels = {});
  prometheus::Histogram& Histogram(const std::string& name, const std::string& help,
                                   const Buckets& buckets, prometheus::Labels labels = {});
  // The gauge `name` as another server calls it: no prefix, its own labels.
  prometheus::Gauge& Alias(const std::string& name, const std::string& help,
                           const prometheus::Labels& labels);

  const std::string& model() const { return model_; }
  const std::shared_ptr<prometheus::Registry>& registry() const { return registry_; }

 private:
  const std::string model_;
  const std::shared_ptr<prometheus::Registry> registry_;
};

}  // namespace penstock
