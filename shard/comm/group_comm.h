#pragma once

#include <memory>
#include <string>

#include "shard/comm/communicator.h"
#include "shard/comm/group_block.h"

namespace penstock {

// The communicator of one rank over a group's shared memory, for LocalComm and ShmComm alike. Every
// matrix is copied there before another rank sees it, so a rank that gives up may change or free
// its own at once, whatever the others are doing.
std::unique_ptr<Communicator> MakeGroupComm(GroupBlock block, const std::string& name, int rank,
                                            const CommOptions& options);

}  // namespace penstock
