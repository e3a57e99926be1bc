#pragma once

#include "absl/status/status.h"
#include "bench/instructions/workload.h"

// Calls `work`. A function of its own under a plain name, so that callgrind can be told to count
// only what happens within it.
extern "C" void penstock_counted(const penstock::Work& work, absl::Status* status);
