#include "shard/checkpoint/gguf_file.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shard/base/status_macros.h"
#include "shard/checkpoint/byte_cursor.h"
#include "shard/checkpoint/gguf_metadata.h"
#include "shard/checkpoint/json.h"
#include "shard/checkpoint/tensor_table.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr uint32_t kMagic = 0x46554747;       // "GGUF"
constexpr int64_t kLeastPairBytes = 13;       // empty key, type, one byte
constexpr int64_t kLeastTensorBytes = 24;     // empty name, no dimensions, type, offset
constexpr uint64_t kMaxNameBytes = 1024;      // the format says 64, files exceed it
constexpr uint32_t kMaxDims = 4;              // the format's own limit
constexpr uint64_t kDefaultAlignment = 32;    // of general.alignment
constexpr uint64_t kMaxAlignment = 16 << 20;  // far above any page

absl::Status CheckVersion(ByteCursor& cursor) {
  ASSIGN_OR_RETURN(const uint32_t magic, cursor.Number<uint32_t>());
  if (magic != kMagic) return absl::InvalidArgumentError("does not begin with GGUF");
  ASSIGN_OR_RETURN(const uint32_t version, cursor.Number<uint32_t>());
  if (version == 2 || version == 3) return absl::OkStatus();
  const bool swapped = version != 0 && (version & 0xffff) == 0;
  return absl::UnimplementedError(
      swapped ? std::string("is a big-endian GGUF file, which is not supported")
              : absl::StrCat("is GGUF version ", version, "; versions 2 and 3 are supported"));
}

absl::StatusOr<int64_t> Alignment(const json& metadata) {
  const json* value = FindMember(metadata, "general.alignment");
  if (value == nullptr) return kDefaultAlignment;
  const uint64_t bytes = value->is_number_unsigned() ? value->get<uint64_t>() : 0;
  if (bytes == 0 || bytes % 8 != 0 || bytes > kMaxAlignment)
    return absl::InvalidArgumentError("key general.alignment: must be a multiple of 8");
  return static_cast<int64_t>(bytes);
}

absl::StatusOr<std::vector<int64_t>> ReadShape(ByteCursor& cursor) {
  ASSIGN_OR_RETURN(const uint32_t count, cursor.Number<uint32_t>());
  if (count > kMaxDims)
    return absl::InvalidArgumentError(
        absl::StrCat("has ", count, " dimensions, at most ", kMaxDims, " are allowed"));
  std::vector<int64_t> shape(count);
  for (uint32_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const uint64_t size, cursor.Number<uint64_t>());
    if (size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return absl::InvalidArgumentError(absl::StrCat("has a dimension of ", size));
    shape[count - 1 - i] = static_cast<int64_t>(size);
  }
  return shape;
}

// What follows a tensor's name. The offset is still relative to the data section.
absl::Status ReadTensor(ByteCursor& cursor, StoredTensor& tensor) {
  ASSIGN_OR_RETURN(tensor.info.shape, ReadShape(cursor));
  ASSIGN_OR_RETURN(const int64_t elements, CountElements(tensor.info.shape));
  ASSIGN_OR_RETURN(const uint32_t type, cursor.Number<uint32_t>());
  tensor.type = &GgufType(type);
  tensor.info.stored_type =
      tensor.type->name == "?" ? absl::StrCat("ggml type ", type) : std::string(tensor.type->name);
  const int64_t cols = ShapeAsMatrix(tensor.info.shape).cols;
  if (cols % tensor.type->block_elements != 0)
    return absl::InvalidArgumentError(
        absl::StrCat("rows of ", cols, " are no whole number of ", tensor.type->name, " blocks"));
  ASSIGN_OR_RETURN(tensor.info.stored_bytes, tensor.type->Bytes(elements));
  ASSIGN_OR_RETURN(const uint64_t offset, cursor.Number<uint64_t>());
  if (offset > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return absl::InvalidArgumentError(absl::StrCat("its data begins at byte ", offset));
  tensor.offset = static_cast<int64_t>(offset);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<StoredTensor>> ReadTensors(const File& file, ByteCursor& cursor,
                                                      int64_t count) {
  std::vector<StoredTensor> tensors;
  tensors.reserve(static_cast<size_t>(count));
  absl::flat_hash_set<std::string> names;
  for (int64_t i = 0; i < count; ++i) {
    StoredTensor& tensor = tensors.emplace_back();
    tensor.file = &file;
    ASSIGN_OR_RETURN(tensor.info.name, cursor.String(kMaxNameBytes));
    absl::Status read = ReadTensor(cursor, tensor);
    if (read.ok() && !names.insert(tensor.info.name).second)
      read = absl::InvalidArgumentError("occurs twice");
    if (!read.ok())
      return absl::Status(read.code(),
                          absl::StrCat("tensor ", tensor.info.name, ": ", read.message()));
  }
  return tensors;
}

// Makes offsets absolute, and checks that the data lies in the file.
absl::Status PlaceTensors(int64_t header_bytes, int64_t alignment, int64_t file_bytes,
                          std::vector<StoredTensor>& tensors) {
  const int64_t begin = (header_bytes + alignment - 1) / alignment * alignment;
  for (StoredTensor& tensor : tensors) {
    const int64_t room = file_bytes - begin;
    if (tensor.offset % alignment != 0)
      return absl::InvalidArgumentError(absl::StrCat("tensor ", tensor.info.name, ": its offset ",
                                                     tensor.offset, " is no multiple of ",
                                                     alignment));
    if (tensor.offset > room || tensor.info.stored_bytes > room - tensor.offset)
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", tensor.info.name, ": has ", tensor.info.stored_bytes, " bytes at ",
          tensor.offset, ", but the file has ", room, " bytes of data (was it cut short?)"));
    tensor.offset += begin;
  }
  return absl::OkStatus();
}

absl::Status CheckOverlap(const std::vector<StoredTensor>& tensors) {
  std::vector<const StoredTensor*> order;
  for (const StoredTensor& tensor : tensors)
    if (tensor.info.stored_bytes > 0) order.push_back(&tensor);
  std::sort(order.begin(), order.end(),
            [](const auto* a, const auto* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const StoredTensor &before = *order[i - 1], &after = *order[i];
    if (before.offset + before.info.stored_bytes > after.offset)
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", after.info.name, ": its data overlaps that of ", before.info.name));
  }
  return absl::OkStatus();
}

absl::StatusOr<GgufFile> Parse(const File& file) {
  ByteCursor cursor(file);
  RETURN_IF_ERROR(CheckVersion(cursor));
  ASSIGN_OR_RETURN(const int64_t tensors, cursor.Count(kLeastTensorBytes));
  ASSIGN_OR_RETURN(const int64_t pairs, cursor.Count(kLeastPairBytes));
  GgufFile gguf;
  ASSIGN_OR_RETURN(gguf.metadata, ReadGgufMetadata(cursor, pairs));
  ASSIGN_OR_RETURN(const int64_t alignment, Alignment(gguf.metadata));
  ASSIGN_OR_RETURN(gguf.tensors, ReadTensors(file, cursor, tensors));
  RETURN_IF_ERROR(PlaceTensors(cursor.position(), alignment, file.size(), gguf.tensors));
  RETURN_IF_ERROR(CheckOverlap(gguf.tensors));
  return gguf;
}

}  // namespace

absl::StatusOr<GgufFile> ReadGguf(const File& file) {
  absl::StatusOr<GgufFile> gguf = Parse(file);
  if (gguf.ok()) return gguf;
  return absl::Status(gguf.status().code(),
                      absl::StrCat(file.path(), ": ", gguf.status().message()));
}

}  // namespace penstock
