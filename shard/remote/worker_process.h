#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace penstock {

// A child process. It is in a process group of its own, so that a terminal's Ctrl-C does not reach
// it, and has no signal blocked. It is the child of a thread that lives as long as it does: a child
// that asks to be killed with its parent (PR_SET_PDEATHSIG) is killed when this process ends.
class WorkerProcess {
 public:
  // Told on a thread of its own, once, how the process ended: "was killed by signal 9 (Killed)".
  using Ended = std::function<void(const std::string& how)>;

  // `arguments` from the program's own name on. NotFound and the like, naming the program.
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Start(
      const std::string& program, const std::vector<std::string>& arguments, Ended ended);
  ~WorkerProcess();  // SIGKILL; waits for its end and the last call

  pid_t pid() const { return pid_; }

 private:
  WorkerProcess() = default;

  pid_t pid_ = 0;
  std::thread thread_;
};

}  // namespace penstock
