#include "cli/load_reporter.h"

#include <algorithm>
#include <chrono>

#include "absl/time/clock.h"
#include "spdlog/spdlog.h"

namespace penstock {

LoadReporter::LoadReporter(const LoadProgress& progress)
    : progress_(progress), begin_(absl::Now()), thread_([this] { Loop(); }) {}

LoadReporter::~LoadReporter() {
  {
    MutexLock lock(&mutex_);
    done_ = true;
  }
  thread_.join();
  Report();
}

void LoadReporter::Loop() {
  MutexLock lock(&mutex_);
  const auto done = [this] {
    mutex_.AssertHeld();
    return done_;
  };
  while (!mutex_.AwaitFor(done, std::chrono::seconds(1))) Report();
}

void LoadReporter::Report() const {
  const double seconds = std::max(1e-6, absl::ToDoubleSeconds(absl::Now() - begin_));
  for (size_t rank = 0; rank < progress_.ranks.size(); ++rank) {
    const int64_t read = progress_.ranks[rank].file_bytes.load();
    const int64_t wanted = progress_.ranks[rank].wanted_bytes.load();
    spdlog::info("load: rank {}: {} in {:.2f} s, {:.0f} MB/s, read amplification {:.2f}", rank,
                 FormatBytes(read), seconds, static_cast<double>(read) / 1e6 / seconds,
                 wanted > 0 ? static_cast<double>(read) / static_cast<double>(wanted) : 1.0);
  }
}

}  // namespace penstock
