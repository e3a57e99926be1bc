#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace penstock {

// POSIX shared memory by name. The memory is unmapped with its last owner; the name stays until it
// is removed. InvalidArgument for what is no name: a letter or digit, then no slash, at most 200
// bytes.

// "shared memory segment /NAME", for errors.
std::string SegmentName(const std::string& name);

// A new segment of zeros, all of its memory taken. AlreadyExists or ResourceExhausted, saying what
// to do.
absl::StatusOr<std::shared_ptr<void>> CreateSegment(const std::string& name, int64_t bytes);

// An existing one, as large as it is. NotFound; FailedPrecondition when it has not `least` bytes.
struct Segment {
  std::shared_ptr<void> memory;
  int64_t bytes = 0;
};
absl::StatusOr<Segment> MapSegment(const std::string& name, int64_t least);

// OK when it is gone already.
absl::Status RemoveSegment(const std::string& name);

}  // namespace penstock
