#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace penstock {

// Fixed work whose instructions are counted. `prepare` makes what it needs; what it returns does
// the work, on the calling thread alone, and is called twice: once to warm caches and tables, once
// to be counted. It fails when the work did not do what it should. Nothing in it depends on time,
// addresses or chance.
using Work = std::function<absl::Status()>;
struct Workload {
  std::string name;  // AREA/WHAT
  std::function<absl::StatusOr<Work>()> prepare;
};

// The instruction set that counts are made with: the widest that the tool which counts knows.
inline constexpr const char* kCountedIsa = "avx2";

// Matrix products, attention, drawing tokens; of the CPU backend on one thread.
std::vector<Workload> KernelWorkloads();
// Decode steps of one rank with a small random model, as its thread runs them.
std::vector<Workload> StepWorkloads();
// Turns of the scheduler with an executor that does nothing.
std::vector<Workload> SchedulerWorkloads();
// Text to tokens and back. Read tests/data/ in the current folder.
std::vector<Workload> TextWorkloads();

}  // namespace penstock
