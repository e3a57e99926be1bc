#pragma once

#include <cstdint>

namespace penstock {

// Loops at full speed on one thread: each runs `rounds` rounds of independent operations on
// registers and returns how many multiplications and additions that were; 0 at once where the
// processor lacks the instructions. Defined once per processor family.
double RunFp32Loop(int64_t rounds);
double RunBf16Loop(int64_t rounds);
double RunInt8Loop(int64_t rounds);

}  // namespace penstock
