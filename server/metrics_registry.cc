#include "server/metrics_registry.h"

namespace penstock {

const Buckets& LongSeconds() {
  static const Buckets buckets = {.0005, .001, .0025, .005, .01,  .025,  .05,  .1, .25,
                                  .5,    1,    2.5,   5,    10,   20,    40,   80, 160,
                                  320,   640,  1280,  2560, 5120, 10240, 20480};
  return buckets;
}

const Buckets& ShortSeconds() {
  static const Buckets buckets = {.0005, .001, .0025, .005, .0075, .01, .015, .02,  .03, .04, .05,
                                  .075,  .1,   .15,   .2,   .3,    .5,  .75,  1,    2,   5,   10,
                                  20,    40,   80,    160,  320,   640, 1280, 2560, 5120};
  return buckets;
}

const Buckets& StageSeconds() {
  static const Buckets buckets = {.0001, .0002, .0004, .0008, .0016, .0032, .0064, .0128,
                                  .0256, .0512, .1024, .2048, .4096, .8192, 2,     5,
                                  10,    40,    160,   640,   2560,  5120};
  return buckets;
}

const Buckets& TokenCounts() {
  static const Buckets buckets = {0,     1,     2,      5,      10,     20,     50,
                                  100,   200,   500,    1000,   2000,   5000,   10000,
                                  20000, 50000, 100000, 200000, 500000, 1000000};
  return buckets;
}

const Buckets& BatchTokens() {
  static const Buckets buckets = {1,   2,   4,    8,    16,   32,   64,    128,
                                  256, 512, 1024, 2048, 4096, 8192, 16384, 65536};
  return buckets;
}

const Buckets& BatchSizes() {
  static const Buckets buckets = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
  return buckets;
}

prometheus::Counter& MetricRegistry::Counter(const std::string& name, const std::string& help,
                                             prometheus::Labels labels) {
  labels["model"] = model_;
  return prometheus::BuildCounter()
      .Name("penstock_" + name)
      .Help(help)
      .Register(*registry_)
      .Add(labels);
}

prometheus::Gauge& MetricRegistry::Gauge(const std::string& name, const std::string& help,
                                         prometheus::Labels labels) {
  labels["model"] = model_;
  return prometheus::BuildGauge()
      .Name("penstock_" + name)
      .Help(help)
      .Register(*registry_)
      .Add(labels);
}

prometheus::Histogram& MetricRegistry::Histogram(const std::string& name, const std::string& help,
                                                 const Buckets& buckets,
                                                 prometheus::Labels labels) {
  labels["model"] = model_;
  return prometheus::BuildHistogram()
      .Name("penstock_" + name)
      .Help(help)
      .Register(*registry_)
      .Add(labels, buckets);
}

prometheus::Gauge& MetricRegistry::Alias(const std::string& name, const std::string& help,
                                         const prometheus::Labels& labels) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(*registry_).Add(labels);
}

}  // namespace penstock
