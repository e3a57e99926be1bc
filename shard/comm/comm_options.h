#pragma once

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

namespace penstock {

// What the ranks of a group agree about, whatever they are: threads or processes of one host.
struct CommOptions {
  std::chrono::milliseconds timeout{30000};  // bound of every wait
  // Largest matrix to add up or send, in elements. Buffers are taken at creation; the collectives
  // go through small ones piece by piece.
  int64_t max_elements = 0;
  int send_depth = 2;                        // matrices a sender may be ahead of its receiver
  std::vector<std::pair<int, int>> links{};  // {from, to} of every Send; others are refused
  bool spin = true;  // before parking; for groups whose ranks each have a core
};

}  // namespace penstock
