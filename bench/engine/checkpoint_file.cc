#include "bench/engine/checkpoint_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "shard/base/status_macros.h"
#include "shard/checkpoint/file.h"

namespace penstock {
namespace {

constexpr int64_t kMiB = 1 << 20;

std::string Header(const std::vector<TensorInfo>& tensors) {
  nlohmann::json header;
  int64_t begin = 0;
  for (const TensorInfo& tensor : tensors) {
    const int64_t end = begin + tensor.stored_bytes;
    header[tensor.name] = {
        {"dtype", "F16"}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

absl::Status WriteTensor(const Checkpoint& checkpoint, const TensorInfo& tensor,
                         std::ofstream& out) {
  const bool vector = tensor.shape.size() == 1;
  const int64_t rows = vector ? 1 : tensor.shape[0], cols = tensor.shape.back();
  const int64_t batch = std::max<int64_t>(1, 4 * kMiB / cols);
  std::vector<uint16_t> values;
  for (int64_t row = 0; row < rows; row += batch) {
    const int64_t end = std::min(row + batch, rows);
    values.resize(static_cast<size_t>((end - row) * cols));
    RETURN_IF_ERROR(
        checkpoint.Read(tensor.name, {row, end}, {0, cols}, DType::kF16, values.data(), nullptr));
    out.write(reinterpret_cast<const char*>(values.data()), std::ssize(values) * 2);
  }
  return absl::OkStatus();
}

absl::Status Flush(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool ok = file >= 0 && fsync(file) == 0;
  if (file >= 0) close(file);
  return ok ? absl::OkStatus() : absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
}

}  // namespace

absl::Status WriteCheckpoint(const Checkpoint& checkpoint, const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/model.safetensors");
  std::ofstream(absl::StrCat(folder, "/config.json")) << checkpoint.config().dump(2);
  std::ofstream out(path, std::ios::binary);
  const std::vector<TensorInfo> tensors = checkpoint.Tensors();
  const std::string header = Header(tensors);
  const uint64_t length = header.size();
  out.write(reinterpret_cast<const char*>(&length), sizeof(length));
  out << header;
  for (const TensorInfo& tensor : tensors) RETURN_IF_ERROR(WriteTensor(checkpoint, tensor, out));
  out.close();
  if (!out) return absl::InternalError(absl::StrCat("cannot write ", path));
  return Flush(path);
}

absl::StatusOr<FileRead> ReadThrough(const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<File> file, File::Open(path));
  std::vector<char> piece(kMiB);
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t at = 0; at < file->size(); at += kMiB)
    RETURN_IF_ERROR(file->ReadAt(at, std::min(kMiB, file->size() - at), piece.data()));
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  return FileRead{file->size(), time.count()};
}

absl::Status DropCached(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const int error = file < 0 ? errno : posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  if (file >= 0) close(file);
  return error == 0 ? absl::OkStatus()
                    : absl::ErrnoToStatus(error, absl::StrCat("cannot drop ", path));
}

}  // namespace penstock
