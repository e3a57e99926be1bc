#include "shard/remote/worker_process.h"

#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <future>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shard/base/thread_name.h"

namespace penstock {
namespace {

// The child's pid, or an error.
absl::StatusOr<pid_t> Spawn(const std::string& program, const std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, program.c_str(), nullptr, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return absl::ErrnoToStatus(error, absl::StrCat("cannot start ", program));
  return pid;
}

// Waits for the end of a child and leaves it to be reaped, so that its pid stays its own.
std::string AwaitEnd(pid_t pid) {
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  if (info.si_code == CLD_EXITED) return absl::StrCat("ended with exit code ", info.si_status);
  return absl::StrCat("was killed by signal ", info.si_status, " (", strsignal(info.si_status),
                      ")");
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerProcess>> WorkerProcess::Start(
    const std::string& program, const std::vector<std::string>& arguments, Ended ended) {
  std::promise<absl::StatusOr<pid_t>> started;
  std::unique_ptr<WorkerProcess> process(new WorkerProcess());
  process->thread_ = std::thread([&started, program, arguments, ended = std::move(ended)] {
    NameThread("worker process");
    const absl::StatusOr<pid_t> pid = Spawn(program, arguments);
    started.set_value(pid);
    if (pid.ok()) ended(AwaitEnd(*pid));
  });
  const absl::StatusOr<pid_t> pid = started.get_future().get();
  if (!pid.ok()) return pid.status();
  process->pid_ = *pid;
  return process;
}

WorkerProcess::~WorkerProcess() {
  if (pid_ != 0) kill(pid_, SIGKILL);
  thread_.join();
  if (pid_ == 0) return;
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace penstock
