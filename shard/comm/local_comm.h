#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shard/comm/comm_options.h"
#include "shard/comm/communicator.h"

namespace penstock {

using LocalCommOptions = CommOptions;

// A group of ranks that are threads of this process. The result has one communicator per rank; each
// may outlive the others. After an abort a new group is made.
std::vector<std::unique_ptr<Communicator>> MakeLocalGroup(const std::string& name, int size,
                                                          const LocalCommOptions& options);

// Bytes that such a group takes, all ranks together.
int64_t LocalGroupBytes(int size, const LocalCommOptions& options);

}  // namespace penstock
