#include "shard/checkpoint/byte_cursor.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace penstock {
namespace {

constexpr int64_t kBufferBytes = 1 << 20;

}  // namespace

absl::StatusOr<std::string> ByteCursor::String(uint64_t max_bytes) {
  ASSIGN_OR_RETURN(const uint64_t length, Number<uint64_t>());
  if (length > max_bytes || length > static_cast<uint64_t>(remaining()))
    return absl::OutOfRangeError(
        absl::StrCat("a text of ", length, " bytes at byte ", position_ - 8,
                     length > max_bytes ? " is too long" : " goes beyond the end of the file"));
  std::string text(static_cast<size_t>(length), '\0');
  RETURN_IF_ERROR(Bytes(static_cast<int64_t>(length), text.data()));
  return text;
}

absl::StatusOr<int64_t> ByteCursor::Count(int64_t least_bytes) {
  ASSIGN_OR_RETURN(const uint64_t count, Number<uint64_t>());
  if (count > static_cast<uint64_t>(remaining() / least_bytes))
    return absl::OutOfRangeError(absl::StrCat("a count of ", count, " at byte ", position_ - 8,
                                              " is more than the rest of the file can hold"));
  return static_cast<int64_t>(count);
}

absl::Status ByteCursor::Bytes(int64_t bytes, void* out) {
  char* to = static_cast<char*>(out);
  if (bytes > remaining())
    return absl::OutOfRangeError(
        absl::StrCat("the file ends at byte ", file_.size(), ", inside its header"));
  while (bytes > 0) {
    const int64_t buffer_end = buffer_begin_ + static_cast<int64_t>(buffer_.size());
    if (position_ == buffer_end) {
      buffer_.resize(static_cast<size_t>(std::min(kBufferBytes, remaining())));
      buffer_begin_ = position_;
      RETURN_IF_ERROR(
          file_.ReadAt(position_, static_cast<int64_t>(buffer_.size()), buffer_.data()));
      continue;
    }
    const int64_t some = std::min(bytes, buffer_end - position_);
    std::memcpy(to, buffer_.data() + (position_ - buffer_begin_), static_cast<size_t>(some));
    to += some;
    position_ += some;
    bytes -= some;
  }
  return absl::OkStatus();
}

}  // namespace penstock
