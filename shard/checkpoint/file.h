#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace penstock {

// A regular file, open for reading. Reads with pread: large sequential reads keep network and local
// disks busy, where page faults of a mapping do not. Immutable, safe to share between threads; owns
// its descriptor. Errors name the path.
class File {
 public:
  // NotFound, PermissionDenied or InvalidArgument (not a regular file).
  static absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }  // bytes, when it was opened

  // All of [offset, offset + bytes), or an error: OutOfRange past the end.
  absl::Status ReadAt(int64_t offset, int64_t bytes, void* out) const;

  // Says that the range, as far as there is one, will be read soon, so that the disk works while
  // its reader does something else.
  void Expect(int64_t offset, int64_t bytes) const;

 private:
  File(std::string path, int descriptor, int64_t size)
      : path_(std::move(path)), descriptor_(descriptor), size_(size) {}

  const std::string path_;
  const int descriptor_;
  const int64_t size_;
};

// The whole of a small file. ResourceExhausted when it is larger than `max_bytes`.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, int64_t max_bytes);

}  // namespace penstock
