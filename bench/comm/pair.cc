#include "bench/comm/pair.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

namespace penstock {
namespace {

// The rank-th processor that this process may use.
void Pin(const cpu_set_t& allowed, int rank) {
  int skip = rank;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || skip-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof(one), &one);
    return;
  }
}

cpu_set_t Allowed() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  return set;
}

}  // namespace

double RunThreads(const RankBody& body) {
  const cpu_set_t allowed = Allowed();
  double seconds = 0;
  std::thread other([&] {
    Pin(allowed, 1);
    body(1);
  });
  std::thread first([&] {
    Pin(allowed, 0);
    seconds = body(0);
  });
  other.join();
  first.join();
  return seconds;
}

absl::StatusOr<double> RunProcesses(const RankBody& body) {
  const cpu_set_t allowed = Allowed();
  const pid_t child = fork();
  if (child < 0) return absl::ErrnoToStatus(errno, "fork");
  if (child == 0) {
    Pin(allowed, 1);
    body(1);
    _exit(0);
  }
  Pin(allowed, 0);
  const double seconds = body(0);
  sched_setaffinity(0, sizeof(allowed), &allowed);
  int status = 0;
  if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return absl::InternalError("the other rank's process failed");
  return seconds;
}

}  // namespace penstock
