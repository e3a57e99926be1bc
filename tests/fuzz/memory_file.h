#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace penstock {

// Bytes as a file that lives in memory only, for readers that want a path.
class MemoryFile {
 public:
  MemoryFile(const uint8_t* bytes, size_t size)
      : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)),
        path_("/proc/self/fd/" + std::to_string(descriptor_)) {
    if (descriptor_ < 0) std::abort();
    while (size > 0) {
      const ssize_t written = write(descriptor_, bytes, size);
      if (written <= 0) std::abort();
      bytes += written;
      size -= static_cast<size_t>(written);
    }
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  const int descriptor_;
  const std::string path_;
};

}  // namespace penstock
