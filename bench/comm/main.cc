// How fast the ranks of one host speak to each other: two threads over LocalComm, two processes
// over ShmComm, each on a processor of its own, beside a bare loop that spins on the same memory.
//
//   comm_bench [--json] [TRIALS [BYTES ...]]
//
// Sums up, and sends to and fro, matrices from 64 bytes to 64 MiB, in alternating trials (5 when
// not given), and prints medians. With --json, one object a line.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "bench/comm/pair.h"
#include "bench/comm/spin_floor.h"
#include "bench/comm/timing.h"
#include "shard/base/status_macros.h"
#include "shard/comm/local_comm.h"
#include "shard/comm/shm_comm.h"

namespace penstock {
namespace {

enum class Operation { kAllReduce, kSend };

// Enough for 10 ms and more.
int CountFor(int64_t bytes) {
  return static_cast<int>(std::clamp<int64_t>((int64_t{1} << 28) / bytes, 4, 20000));
}

CommOptions OptionsFor(int64_t bytes) {
  CommOptions options;
  options.max_elements = std::max<int64_t>(1, bytes / 4);
  options.links = {{0, 1}, {1, 0}};
  return options;
}

// Seconds of one all-reduce, or of one matrix sent one way.
double Measure(Communicator& comm, Operation operation, int64_t bytes) {
  std::vector<float> values(static_cast<size_t>(bytes / 4));
  const Matrix matrix{values.data(), 1, bytes / 4, bytes / 4, DType::kF32};
  const int count = CountFor(bytes);
  if (operation == Operation::kAllReduce)
    return TimeSteps(count, [&] { comm.AllReduceSum(matrix); });
  return TimeSteps(count,
                   [&] {
                     if (comm.rank() == 0) comm.Send(matrix, 1);
                     comm.Recv(1 - comm.rank(), matrix);
                     if (comm.rank() == 1) comm.Send(matrix, 0);
                   }) /
         2;
}

absl::StatusOr<double> OverThreads(Operation operation, int64_t bytes) {
  const auto group = MakeLocalGroup("bench", 2, OptionsFor(bytes));
  const double seconds = RunThreads(
      [&](int rank) { return Measure(*group[static_cast<size_t>(rank)], operation, bytes); });
  RETURN_IF_ERROR(group[0]->status());
  return seconds;
}

absl::StatusOr<double> OverProcesses(Operation operation, int64_t bytes) {
  const std::string segment = absl::StrCat("penstock-comm-bench-", getpid());
  const CommOptions options = OptionsFor(bytes);
  RETURN_IF_ERROR(CreateShmGroup(segment, 2, 1, options));
  absl::Status status;
  const absl::StatusOr<double> seconds = RunProcesses([&](int rank) {
    auto comm = JoinShmGroup(segment, "bench", rank, 2, 1, options);
    if (!comm.ok()) return status = comm.status(), 0.0;
    const double time = Measure(**comm, operation, bytes);
    status = (*comm)->status();
    return time;
  });
  RETURN_IF_ERROR(RemoveShmGroup(segment));
  RETURN_IF_ERROR(status);
  return seconds;
}

// Of processes.
absl::StatusOr<double> Floor(Operation operation, int64_t bytes) {
  SpinFloor floor(bytes / 4);
  return RunProcesses([&](int rank) {
    const int count = CountFor(bytes);
    return operation == Operation::kAllReduce ? floor.AllReduce(rank, count)
                                              : floor.Send(rank, count);
  });
}

struct Figures {
  double floor = 0, threads = 0, processes = 0;  // seconds
};

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

absl::StatusOr<Figures> MeasureAll(Operation operation, int64_t bytes, int trials) {
  std::vector<double> floor, threads, processes;
  for (int trial = 0; trial < trials; ++trial) {
    ASSIGN_OR_RETURN(double seconds, Floor(operation, bytes));
    floor.push_back(seconds);
    ASSIGN_OR_RETURN(seconds, OverProcesses(operation, bytes));
    processes.push_back(seconds);
    ASSIGN_OR_RETURN(seconds, OverThreads(operation, bytes));
    threads.push_back(seconds);
  }
  return Figures{MedianOf(floor), MedianOf(threads), MedianOf(processes)};
}

void Print(Operation operation, int64_t bytes, const Figures& at, bool json) {
  const char* const name = operation == Operation::kAllReduce ? "all-reduce" : "send";
  const auto size = static_cast<double>(bytes);
  const auto length = static_cast<long long>(bytes);
  if (json) {
    std::printf(
        "{\"operation\": \"%s\", \"bytes\": %lld, \"floor_us\": %.4f, \"threads_us\": %.4f, "
        "\"processes_us\": %.4f}\n",
        name, length, at.floor * 1e6, at.threads * 1e6, at.processes * 1e6);
  } else {
    std::printf(
        "%-10s %9lld B: floor %10.2f us, threads %10.2f us, processes %10.2f us "
        "(%.2f x, %.2f GB/s)\n",
        name, length, at.floor * 1e6, at.threads * 1e6, at.processes * 1e6, at.processes / at.floor,
        size / at.processes * 1e-9);
  }
  std::fflush(stdout);
}

absl::Status Run(bool json, int trials, const std::vector<int64_t>& sizes) {
  for (const Operation operation : {Operation::kAllReduce, Operation::kSend}) {
    for (const int64_t bytes : sizes) {
      ASSIGN_OR_RETURN(const Figures figures, MeasureAll(operation, bytes, trials));
      Print(operation, bytes, figures, json);
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const bool json = std::erase(words, "--json") > 0;
  int trials = 5;
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < words.size(); ++i) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(words[i], &number) || number < (i == 0 ? 1 : 4)) {
      std::fprintf(stderr, "usage: comm_bench [--json] [TRIALS [BYTES ...]]\n");
      return 2;
    }
    if (i == 0) trials = static_cast<int>(number);
    if (i > 0) sizes.push_back(number / 4 * 4);
  }
  if (sizes.empty())
    sizes = {64, 512, 2048, 8192, 65536, 262144, 524288, 2097152, 8388608, 67108864};
  const absl::Status status = penstock::Run(json, trials, sizes);
  if (status.ok()) return 0;
  std::fprintf(stderr, "comm_bench: %s\n", status.ToString().c_str());
  return 2;
}
