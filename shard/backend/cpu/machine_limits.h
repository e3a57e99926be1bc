#pragma once

namespace penstock {

// What this machine can do at most, measured now: what speeds are to be compared with. 0: the
// processor has no such instructions, or there is no memory to read.
struct MachineLimits {
  int threads = 1;
  double read_bandwidth = 0;  // bytes per second, cold memory, one sequential stream per thread
  double fp32 = 0;            // FLOP per second: fused multiply-adds of the best instruction set
  double bf16 = 0;            // FLOP per second of the bf16 dot product
  double int8 = 0;            // OP per second of the int8 dot product
  double handover = 0;        // seconds until one thread sees what another has written
};

// Takes about a second. Each of the threads is expected to have a processor.
MachineLimits MeasureLimits(int threads);

// The read bandwidth alone: the best of `runs`. Takes 256 MiB, and some 10 ms a run.
double MeasureReadBandwidth(int threads, int runs);

}  // namespace penstock
