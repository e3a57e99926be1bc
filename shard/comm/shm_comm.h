#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/comm/comm_options.h"
#include "shard/comm/communicator.h"

namespace penstock {

// Groups whose ranks are processes of one host (or threads of several, it does not matter): they
// meet in a POSIX shared memory segment. A leader creates it, every rank joins it once, and the
// leader removes its name, at any time after all have joined. One segment serves one epoch; after
// an abort, or when a member has died, a new one is made.
//
// What a member that was killed or stopped leaves behind cannot change another's result: there is
// no lock to be left held, a matrix counts only once it is whole, and the others' waits are bounded
// as ever. That it has died nobody notices by the segment; whoever does calls AbortShmGroup().
//
// A segment's name has no slash, begins with a letter or digit and is at most 200 bytes long. All
// functions are thread-safe.
using ShmCommOptions = CommOptions;

// Bytes of the segment of such a group, all ranks together.
int64_t ShmGroupBytes(int size, const ShmCommOptions& options);

// Creates the segment for `size` ranks of one epoch, readable by this user alone. AlreadyExists
// when there is one of that name, be it that of a leader that died. ResourceExhausted, saying what
// to do, when the host has not the room: all of it is taken here, so that no member meets a SIGBUS.
absl::Status CreateShmGroup(const std::string& segment, int size, uint64_t epoch,
                            const ShmCommOptions& options);

// Joins as `rank`, and waits for nobody: the first operation does, with the bound. `group` names it
// in errors ("tensor (stage 0)"). NotFound when there is no such segment; FailedPrecondition when
// it is for another epoch, size or layout, was made with other options (timeout and spin are each
// member's own), or somebody has joined as this rank before.
absl::StatusOr<std::unique_ptr<Communicator>> JoinShmGroup(const std::string& segment,
                                                           const std::string& group, int rank,
                                                           int size, uint64_t epoch,
                                                           const ShmCommOptions& options);

// For who is no member: as Communicator::Abort(). Errors as those of JoinShmGroup().
absl::Status AbortShmGroup(const std::string& segment, int size, uint64_t epoch,
                           const ShmCommOptions& options, const absl::Status& why);

// Removes the name; members keep what they have mapped. OK when it is gone already.
absl::Status RemoveShmGroup(const std::string& segment);

}  // namespace penstock
