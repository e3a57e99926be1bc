#include "bench/engine/trials.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace penstock {

ForeignLoad::ForeignLoad() : begin_(Read()) {}

ForeignLoad::Times ForeignLoad::Read() {
  Times times;
  std::ifstream stat("/proc/stat");
  std::string cpu;
  stat >> cpu;
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  double value = 0;
  for (int field = 0; field < 8 && stat >> value; ++field) {  // what comes after is counted twice
    times.total += value / ticks;
    const bool idle = field == 3 || field == 4;  // waiting for a disk included
    if (!idle) times.busy += value / ticks;
  }
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  times.own = seconds(use.ru_utime) + seconds(use.ru_stime);
  return times;
}

double ForeignLoad::Share() const {
  const Times now = Read();
  const double total = now.total - begin_.total;
  if (total <= 0) return 0;
  return std::max(0.0, (now.busy - begin_.busy) - (now.own - begin_.own)) / total;
}

}  // namespace penstock
