#include "shard/checkpoint/tensor_table.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace penstock {
namespace {

absl::Status NotThere(absl::string_view name, const std::string& source) {
  return absl::NotFoundError(absl::StrCat(source, ": there is no tensor ", name));
}

}  // namespace

absl::Status TensorError(const absl::Status& problem, absl::string_view file,
                         absl::string_view name) {
  if (problem.ok()) return problem;
  return absl::Status(problem.code(),
                      absl::StrCat(file, ": tensor ", name, ": ", problem.message()));
}

absl::Status TensorTable::Add(StoredTensor tensor) {
  const auto [entry, added] = index_.try_emplace(tensor.info.name, tensors_.size());
  if (!added)
    return TensorError(absl::InvalidArgumentError("occurs twice"), tensor.file->path(),
                       tensor.info.name);
  tensors_.push_back(std::move(tensor));
  return absl::OkStatus();
}

const StoredTensor* TensorTable::Find(absl::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

std::vector<TensorInfo> TensorTable::List() const {
  std::vector<TensorInfo> list;
  list.reserve(tensors_.size());
  for (const StoredTensor& tensor : tensors_) list.push_back(tensor.info);
  return list;
}

absl::StatusOr<TensorInfo> TensorTable::Describe(absl::string_view name,
                                                 const std::string& source) const {
  const StoredTensor* tensor = Find(name);
  if (tensor == nullptr) return NotThere(name, source);
  return tensor->info;
}

absl::Status TensorTable::Read(absl::string_view name, const std::string& source, Range rows,
                               Range cols, DType dtype, void* out, ReadProgress* progress) const {
  const StoredTensor* tensor = Find(name);
  if (tensor == nullptr) return NotThere(name, source);
  return TensorError(ReadWindow(*tensor, rows, cols, dtype, out, progress), tensor->file->path(),
                     name);
}

}  // namespace penstock
