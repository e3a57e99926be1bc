#include "cli/stop_signals.h"

#include <pthread.h>

#include <csignal>
#include <utility>

namespace penstock {
namespace {

constexpr int kEnd = SIGUSR1;  // tells the thread to return

sigset_t StopSet() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  sigaddset(&set, kEnd);
  return set;
}

void Loop(const std::function<void()>& on_signal) {
  const sigset_t set = StopSet();
  int signal = 0;
  while (sigwait(&set, &signal) == 0 && signal != kEnd) on_signal();
}

}  // namespace

void BlockStopSignals() {
  const sigset_t set = StopSet();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

StopSignals::StopSignals(std::function<void()> on_signal)
    : thread_([on_signal = std::move(on_signal)] { Loop(on_signal); }) {}

StopSignals::~StopSignals() {
  pthread_kill(thread_.native_handle(), kEnd);
  thread_.join();
}

}  // namespace penstock
