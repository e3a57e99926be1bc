#include "shard/checkpoint/safetensors.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shard/base/status_macros.h"
#include "shard/checkpoint/tensor_table.h"

namespace penstock {
namespace {

static_assert(std::endian::native == std::endian::little, "checkpoints are little-endian");

constexpr int64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit

absl::Status CheckSize(const SafetensorsEntry& entry, const StoredType& type) {
  ASSIGN_OR_RETURN(const int64_t elements, CountElements(entry.shape));
  if (entry.bytes.begin > entry.bytes.end)
    return absl::InvalidArgumentError(absl::StrCat("its data ends (", entry.bytes.end,
                                                   ") before it begins (", entry.bytes.begin, ")"));
  if (type.block_bytes == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int64_t bytes, type.Bytes(elements));
  if (bytes == entry.bytes.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("has ", entry.bytes.size(), " bytes, but ",
                                                 elements, " elements of ", entry.dtype, " are ",
                                                 bytes));
}

// Every byte of the data section belongs to one tensor.
absl::Status CheckCoverage(std::vector<SafetensorsEntry>& entries, int64_t data_bytes) {
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.bytes.begin, a.bytes.end) < std::pair(b.bytes.begin, b.bytes.end);
  });
  int64_t end = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.bytes.begin != end)
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", entry.name, ": its data begins at byte ", entry.bytes.begin,
                       entry.bytes.begin < end ? ", inside another tensor's, which ends at "
                                               : ", behind a hole that begins at ",
                       end));
    end = entry.bytes.end;
    if (end > data_bytes)
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", entry.name, ": its data ends at byte ", end,
                       ", but the file has ", data_bytes, " bytes of data (was it cut short?)"));
  }
  if (end == data_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("has ", data_bytes - end, " bytes of data that belong to no tensor"));
}

absl::StatusOr<std::string> ReadHeader(const File& file) {
  uint64_t length = 0;
  if (file.size() < kLengthBytes)
    return absl::InvalidArgumentError(
        absl::StrCat("has ", file.size(), " bytes, too few for a safetensors file"));
  RETURN_IF_ERROR(file.ReadAt(0, kLengthBytes, &length));
  if (length > kMaxHeaderBytes)
    return absl::InvalidArgumentError(absl::StrCat("its header claims ", length, " bytes, at most ",
                                                   kMaxHeaderBytes, " are allowed"));
  if (static_cast<int64_t>(length) > file.size() - kLengthBytes)
    return absl::InvalidArgumentError(absl::StrCat("its header claims ", length,
                                                   " bytes, but the file has ", file.size(),
                                                   " (was it cut short?)"));
  std::string text(static_cast<size_t>(length), '\0');
  RETURN_IF_ERROR(file.ReadAt(kLengthBytes, static_cast<int64_t>(length), text.data()));
  return text;
}

StoredTensor MakeStored(SafetensorsEntry entry, const File& file, int64_t data_begin) {
  StoredTensor tensor;
  tensor.type = &SafetensorsType(entry.dtype);
  tensor.file = &file;
  tensor.offset = data_begin + entry.bytes.begin;
  tensor.info = {std::move(entry.name), std::move(entry.shape), std::move(entry.dtype),
                 entry.bytes.size()};
  return tensor;
}

absl::StatusOr<std::vector<StoredTensor>> Parse(const File& file) {
  ASSIGN_OR_RETURN(const std::string header, ReadHeader(file));
  ASSIGN_OR_RETURN(std::vector<SafetensorsEntry> entries, ParseSafetensorsHeader(header));
  for (const SafetensorsEntry& entry : entries) {
    const absl::Status checked = CheckSize(entry, SafetensorsType(entry.dtype));
    if (!checked.ok())
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", entry.name, ": ", checked.message()));
  }
  const int64_t data_begin = kLengthBytes + static_cast<int64_t>(header.size());
  RETURN_IF_ERROR(CheckCoverage(entries, file.size() - data_begin));
  std::vector<StoredTensor> tensors;
  tensors.reserve(entries.size());
  for (SafetensorsEntry& entry : entries)
    tensors.push_back(MakeStored(std::move(entry), file, data_begin));
  return tensors;
}

}  // namespace

absl::StatusOr<std::vector<StoredTensor>> ReadSafetensors(const File& file) {
  auto tensors = Parse(file);
  if (tensors.ok()) return tensors;
  return absl::Status(tensors.status().code(),
                      absl::StrCat(file.path(), ": ", tensors.status().message()));
}

}  // namespace penstock
