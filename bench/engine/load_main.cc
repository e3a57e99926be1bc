// How fast a model gets from a file into an engine, against reading the file from front to back.
//
//   load_bench FOLDER [TRIALS]
//
// Makes a random 1.1B model of f16 in FOLDER unless there is one, and loads it with one rank of as
// many threads as there are processors: with nothing of the file in memory, and with all of it. The
// last lines are "gate: FIGURE (goal GOAL): ok" or "short". Exits with 1 when one is short, 2 on an
// error.
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/engine/checkpoint_file.h"
#include "bench/engine/engine.h"
#include "bench/engine/trials.h"
#include "bench/support/random_checkpoint.h"
#include "shard/base/cpus.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

// What a process that loads the model sees. Plain data: it comes through a pipe.
struct Loaded {
  bool ok = false;
  double seconds = 0;
  double planned = 0;   // bytes of weights and KV cache
  double resident = 0;  // bytes of the process, loaded
  double peak = 0;      // and at most until then
};

double ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  double total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

Loaded Load(const std::string& folder) {
  Loaded loaded;
  const auto begin = std::chrono::steady_clock::now();
  const auto checkpoint = Checkpoint::Open(folder);
  if (!checkpoint.ok()) return loaded;
  const auto engine = LoadEngine(**checkpoint, {.threads = AvailableCpus()});
  if (!engine.ok()) return loaded;
  loaded.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  loaded.planned = static_cast<double>(engine->weight_bytes + engine->kv_bytes);
  loaded.resident = ResidentBytes();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  loaded.peak = static_cast<double>(usage.ru_maxrss) * 1024;
  loaded.ok = true;
  return loaded;
}

// In a process of its own, so that its memory is its own.
absl::StatusOr<Loaded> LoadAlone(const std::string& folder) {
  int ends[2];
  if (pipe(ends) != 0) return absl::ErrnoToStatus(errno, "pipe");
  const pid_t child = fork();
  if (child == 0) {
    const Loaded loaded = Load(folder);
    _exit(write(ends[1], &loaded, sizeof(loaded)) == sizeof(loaded) ? 0 : 1);
  }
  close(ends[1]);
  Loaded loaded;
  const bool told = child > 0 && read(ends[0], &loaded, sizeof(loaded)) == sizeof(loaded);
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  if (!told || !loaded.ok) return absl::InternalError(absl::StrCat("cannot load ", folder));
  return loaded;
}

struct Trial {
  FileRead read;
  Loaded loaded;
  double Ratio() const { return read.seconds / loaded.seconds; }
};

absl::StatusOr<Trial> RunTrial(const std::string& folder, bool cold) {
  const std::string file = absl::StrCat(folder, "/model.safetensors");
  Trial trial;
  if (cold) RETURN_IF_ERROR(DropCached(file));
  ASSIGN_OR_RETURN(trial.read, ReadThrough(file));
  if (cold) RETURN_IF_ERROR(DropCached(file));
  ASSIGN_OR_RETURN(trial.loaded, LoadAlone(folder));
  return trial;
}

// Prints one kind's figures and its gate. False when it is short.
bool Report(const char* kind, const std::vector<Trial>& trials) {
  const auto median = [&](auto figure) { return Median(trials, figure); };
  const double ratio = median([](const Trial& trial) { return trial.Ratio(); });
  const auto bytes = static_cast<double>(trials.front().read.bytes);
  std::printf("%s: read from front to back at %.2f GB/s, loaded at %.2f\n", kind,
              median([&](const Trial& trial) { return bytes / trial.read.seconds; }) / 1e9,
              median([&](const Trial& trial) { return bytes / trial.loaded.seconds; }) / 1e9);
  std::printf("gate: load %.2f of the reading speed, %s (goal 0.80): %s\n", ratio, kind,
              ratio >= 0.8 ? "ok" : "short");
  return ratio >= 0.8;
}

absl::StatusOr<bool> Run(const std::string& folder, int trials) {
  if (!std::filesystem::exists(absl::StrCat(folder, "/model.safetensors"))) {
    std::filesystem::create_directories(folder);
    ASSIGN_OR_RETURN(const auto random, RandomCheckpoint::Create("1.1b", 1));
    RETURN_IF_ERROR(WriteCheckpoint(*random, folder));
  }
  std::vector<Trial> cold, warm;
  for (int i = 0; i < trials; ++i) {
    ASSIGN_OR_RETURN(cold.emplace_back(), RunTrial(folder, true));
    ASSIGN_OR_RETURN(warm.emplace_back(), RunTrial(folder, false));
  }
  const Loaded& last = cold.back().loaded;
  const double memory = last.resident / last.planned, peak = last.peak / last.planned;
  std::printf("%.0f MiB of weights and KV cache; resident %.0f, at most %.0f\n",
              last.planned / (1 << 20), last.resident / (1 << 20), last.peak / (1 << 20));
  const bool fast = Report("cold", cold), faster = Report("warm", warm);
  std::printf("gate: peak memory %.3f x weights and KV cache (goal 1.15): %s\n", peak,
              peak <= 1.15 ? "ok" : "short");
  std::printf("resident %.3f x\n", memory);
  return fast && faster && peak <= 1.15;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  int trials = 3;
  if (argc < 2 || argc > 3 || (argc == 3 && (!absl::SimpleAtoi(argv[2], &trials) || trials < 1))) {
    std::fprintf(stderr, "usage: load_bench FOLDER [TRIALS]\n");
    return 2;
  }
  const absl::StatusOr<bool> ok = penstock::Run(argv[1], trials);
  if (ok.ok()) return *ok ? 0 : 1;
  std::fprintf(stderr, "load_bench: %s\n", std::string(ok.status().message()).c_str());
  return 2;
}
