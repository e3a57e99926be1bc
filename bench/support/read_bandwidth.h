#pragma once

namespace penstock {

// Bytes per second of reading cold memory sequentially, one stream per thread: the best of `runs`.
// Takes 256 MiB and some 10 ms a run; 0 when there is no memory. What decoding can reach at most.
double MeasureReadBandwidth(int threads, int runs);

}  // namespace penstock
