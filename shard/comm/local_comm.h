#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shard/comm/communicator.h"

namespace penstock {

struct LocalCommOptions {
  std::chrono::milliseconds timeout{30000};  // bound of every wait
  // Largest matrix to add up or send, in elements. Buffers are taken at creation; the collectives
  // go through small ones piece by piece.
  int64_t max_elements = 0;
  int send_depth = 2;                      // matrices a sender may be ahead of its receiver
  std::vector<std::pair<int, int>> links;  // {from, to} of every Send; others are refused
  bool spin = true;  // before parking; for groups whose ranks each have a core
};

// A group of ranks that are threads of this process. The result has one communicator per rank; each
// may outlive the others. After an abort a new group is made.
//
// Every matrix is copied into memory of the group before another rank sees it, so a rank that gives
// up may change or free its own at once, whatever the others are doing.
std::vector<std::unique_ptr<Communicator>> MakeLocalGroup(const std::string& name, int size,
                                                          const LocalCommOptions& options);

// Bytes that such a group takes for its buffers, all ranks together.
int64_t LocalGroupBytes(int size, const LocalCommOptions& options);

}  // namespace penstock
