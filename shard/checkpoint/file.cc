#include "shard/checkpoint/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "shard/base/status_macros.h"

namespace penstock {

absl::StatusOr<std::unique_ptr<File>> File::Open(const std::string& path) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  struct stat status;
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(descriptor);
    return absl::InvalidArgumentError(absl::StrCat(path, ": not a regular file"));
  }
  posix_fadvise(descriptor, 0, 0, POSIX_FADV_SEQUENTIAL);
  return std::unique_ptr<File>(new File(path, descriptor, status.st_size));
}

File::~File() { close(descriptor_); }

absl::Status File::ReadAt(int64_t offset, int64_t bytes, void* out) const {
  if (offset < 0 || bytes < 0 || offset > size_ || bytes > size_ - offset)
    return absl::OutOfRangeError(absl::StrCat(path_, ": the file ends at byte ", size_, ", but ",
                                              bytes, " bytes at ", offset, " are needed"));
  char* to = static_cast<char*>(out);
  while (bytes > 0) {
    const ssize_t got = pread(descriptor_, to, static_cast<size_t>(bytes), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path_, " at byte ", offset));
    if (got == 0)
      return absl::DataLossError(
          absl::StrCat(path_, ": became shorter while it was read, ends at byte ", offset));
    to += got;
    offset += got;
    bytes -= got;
  }
  return absl::OkStatus();
}

void File::Expect(int64_t offset, int64_t bytes) const {
  posix_fadvise(descriptor_, offset, bytes, POSIX_FADV_WILLNEED);
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, int64_t max_bytes) {
  ASSIGN_OR_RETURN(const std::unique_ptr<File> file, File::Open(path));
  if (file->size() > max_bytes)
    return absl::ResourceExhaustedError(
        absl::StrCat(path, ": has ", file->size(), " bytes, at most ", max_bytes, " are expected"));
  std::string text(static_cast<size_t>(file->size()), '\0');
  RETURN_IF_ERROR(file->ReadAt(0, file->size(), text.data()));
  return text;
}

}  // namespace penstock
