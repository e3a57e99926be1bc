#include "shard/comm/shm_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  ~Descriptor() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return descriptor_; }

 private:
  const int descriptor_;
};

absl::StatusOr<std::string> PathOf(const std::string& name) {
  constexpr size_t kMost = 200;
  if (name.empty() || name.size() > kMost || name.find('/') != std::string::npos ||
      !absl::ascii_isalnum(static_cast<unsigned char>(name.front())))
    return absl::InvalidArgumentError(
        absl::StrCat("'", name, "' cannot name a shared memory segment"));
  return absl::StrCat("/", name);
}

absl::Status Failed(const std::string& name, const char* call, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat(SegmentName(name), ": ", call));
}

absl::Status NoRoom(const std::string& name, int64_t bytes) {
  constexpr double kMiB = 1 << 20;
  struct statvfs room {};
  std::string left;
  if (statvfs("/dev/shm", &room) == 0)
    left = absl::StrFormat(
        ", of which %.1f MiB are left",
        static_cast<double>(room.f_bavail) * static_cast<double>(room.f_frsize) / kMiB);
  return absl::ResourceExhaustedError(absl::StrFormat(
      "%s: no room for %.1f MiB in /dev/shm%s; give it more (docker run --shm-size=..., or mount "
      "-o remount,size=... /dev/shm) or remove what is left in it",
      SegmentName(name), static_cast<double>(bytes) / kMiB, left));
}

absl::StatusOr<std::shared_ptr<void>> Map(const std::string& name, const Descriptor& file,
                                          int64_t bytes) {
  const auto length = static_cast<size_t>(bytes);
  void* memory =
      mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file.get(), 0);
  if (memory == MAP_FAILED) return Failed(name, "mmap", errno);
  return std::shared_ptr<void>(memory, [length](void* address) { munmap(address, length); });
}

// Memory taken now cannot be missing, as a SIGBUS, when it is written.
absl::StatusOr<std::shared_ptr<void>> TakeAndMap(const std::string& name, const Descriptor& file,
                                                 int64_t bytes) {
  int error = EINTR;
  while (error == EINTR) error = posix_fallocate(file.get(), 0, bytes);
  if (error == ENOSPC || error == ENOMEM || error == EFBIG) return NoRoom(name, bytes);
  if (error != 0) return Failed(name, "posix_fallocate", error);
  return Map(name, file, bytes);
}

}  // namespace

std::string SegmentName(const std::string& name) {
  return absl::StrCat("shared memory segment /", name);
}

absl::StatusOr<std::shared_ptr<void>> CreateSegment(const std::string& name, int64_t bytes) {
  ASSIGN_OR_RETURN(const std::string path, PathOf(name));
  const Descriptor file(shm_open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.get() < 0 && errno == EEXIST)
    return absl::AlreadyExistsError(
        absl::StrCat(SegmentName(name),
                     " exists already: another group is using it, or its leader "
                     "died and /dev/shm/",
                     name, " can be removed"));
  if (file.get() < 0) return Failed(name, "shm_open", errno);
  absl::StatusOr<std::shared_ptr<void>> memory = TakeAndMap(name, file, bytes);
  if (!memory.ok()) shm_unlink(path.c_str());
  return memory;
}

absl::StatusOr<Segment> MapSegment(const std::string& name, int64_t least) {
  ASSIGN_OR_RETURN(const std::string path, PathOf(name));
  const Descriptor file(shm_open(path.c_str(), O_RDWR | O_CLOEXEC, 0));
  if (file.get() < 0 && errno == ENOENT)
    return absl::NotFoundError(absl::StrCat(
        SegmentName(name), " is not there: its leader has not made it, or has removed it"));
  if (file.get() < 0) return Failed(name, "shm_open", errno);
  struct stat status {};
  if (fstat(file.get(), &status) != 0) return Failed(name, "fstat", errno);
  if (status.st_size < least)
    return absl::FailedPreconditionError(
        absl::StrCat(SegmentName(name), " has ", status.st_size,
                     " bytes, fewer than any group: it is not whole"));
  ASSIGN_OR_RETURN(std::shared_ptr<void> memory, Map(name, file, status.st_size));
  return Segment{std::move(memory), status.st_size};
}

absl::Status RemoveSegment(const std::string& name) {
  ASSIGN_OR_RETURN(const std::string path, PathOf(name));
  if (shm_unlink(path.c_str()) != 0 && errno != ENOENT) return Failed(name, "shm_unlink", errno);
  return absl::OkStatus();
}

}  // namespace penstock
