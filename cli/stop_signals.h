#pragma once

#include <functional>
#include <thread>

namespace penstock {

// Makes SIGTERM and SIGINT wait for StopSignals. To be called before any thread is started, since
// threads inherit it.
void BlockStopSignals();

// Calls `on_signal` from a thread of its own for each SIGTERM or SIGINT, as no signal handler could
// do anything useful itself.
class StopSignals {
 public:
  explicit StopSignals(std::function<void()> on_signal);
  ~StopSignals();

 private:
  std::thread thread_;
};

}  // namespace penstock
