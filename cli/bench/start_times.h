#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

#include "absl/time/time.h"
#include "cli/bench/random_stream.h"
#include "cli/bench/trace_file.h"

namespace penstock {

// When requests start, since the start of the run. Belongs to one thread.
class StartTimes {
 public:
  virtual ~StartTimes() = default;
  // Of the next request. InfiniteDuration: not before another one ends; nothing: it was the last.
  virtual std::optional<absl::Duration> next() const = 0;
  // Whether latency counts from next() even when the call is begun later (open loop), or from the
  // beginning of the call (closed loop).
  virtual bool counts_from_schedule() const = 0;
  virtual void OnStart() = 0;
  virtual void OnEnd(absl::Duration at, bool ok) = 0;
};

// Closed loop: `concurrency` clients, each of which sends its next request when its last has ended.
// One whose request failed pauses, lest a server that refuses is asked without end.
class ClosedLoop final : public StartTimes {
 public:
  static constexpr absl::Duration kPauseAfterFailure = absl::Milliseconds(100);

  explicit ClosedLoop(int32_t concurrency);
  std::optional<absl::Duration> next() const override;
  bool counts_from_schedule() const override { return false; }
  void OnStart() override { free_.pop(); }
  void OnEnd(absl::Duration at, bool ok) override;

 private:
  // When each client that has no request in flight may send one.
  std::priority_queue<absl::Duration, std::vector<absl::Duration>, std::greater<>> free_;
};

// Open loop: a Poisson process of `rate` requests per second, whatever the server does.
class PoissonArrivals final : public StartTimes {
 public:
  PoissonArrivals(double rate, uint64_t seed);
  std::optional<absl::Duration> next() const override { return next_; }
  bool counts_from_schedule() const override { return true; }
  void OnStart() override;
  void OnEnd(absl::Duration, bool) override {}

 private:
  const double mean_gap_;  // seconds
  RandomStream random_;
  absl::Duration next_;
};

// Open loop: the arrivals of a trace, which is borrowed.
class TraceArrivals final : public StartTimes {
 public:
  explicit TraceArrivals(const std::vector<TraceRow>& rows) : rows_(rows) {}
  std::optional<absl::Duration> next() const override;
  bool counts_from_schedule() const override { return true; }
  void OnStart() override { ++position_; }
  void OnEnd(absl::Duration, bool) override {}

 private:
  const std::vector<TraceRow>& rows_;
  size_t position_ = 0;
};

}  // namespace penstock
