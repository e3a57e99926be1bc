#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/base/status_macros.h"
#include "shard/checkpoint/file.h"

namespace penstock {

// Reads a file from its start, small things through a buffer. What is asked for is checked against
// what is left before memory is taken for it. Little-endian. For one thread; borrows the file.
class ByteCursor {
 public:
  explicit ByteCursor(const File& file) : file_(file) {}

  int64_t position() const { return position_; }
  int64_t remaining() const { return file_.size() - position_; }

  template <typename T>
  absl::StatusOr<T> Number() {
    static_assert(std::is_arithmetic_v<T>);
    T value;
    RETURN_IF_ERROR(Bytes(sizeof value, &value));
    return value;
  }

  // A 64-bit length and so many bytes, at most `max_bytes`.
  absl::StatusOr<std::string> String(uint64_t max_bytes);

  // A count of things that take at least `least_bytes` each: OutOfRange when the rest of the file
  // cannot hold them.
  absl::StatusOr<int64_t> Count(int64_t least_bytes);

 private:
  absl::Status Bytes(int64_t bytes, void* out);

  const File& file_;
  int64_t position_ = 0;
  int64_t buffer_begin_ = 0;  // where in the file buffer_ starts
  std::vector<char> buffer_;
};

}  // namespace penstock
