#include "shard/model/weight_loader.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "shard/base/status_macros.h"

namespace penstock {

Matrix WeightLoader::Staging::Take(int64_t rows, int64_t cols, DType dtype) {
  const size_t bytes = static_cast<size_t>(rows * cols) * SizeOf(dtype);
  if (bytes > bytes_) {
    memory_.reset();
    memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    bytes_ = bytes;
  }
  return {memory_.get(), rows, cols, cols, dtype};
}

WeightLoader WeightLoader::Under(absl::string_view prefix) const {
  WeightLoader child = *this;
  absl::StrAppend(&child.prefix_, prefix, ".");
  return child;
}

std::string WeightLoader::Name(absl::string_view name) const { return absl::StrCat(prefix_, name); }

bool WeightLoader::Has(absl::string_view name) const { return checkpoint_.Find(Name(name)).ok(); }

absl::Status WeightLoader::CheckShape(absl::string_view name,
                                      std::initializer_list<int64_t> expected) const {
  ASSIGN_OR_RETURN(const TensorInfo info, checkpoint_.Find(name));
  if (std::equal(info.shape.begin(), info.shape.end(), expected.begin(), expected.end()))
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(checkpoint_.path(), ": tensor ", name, " is [",
                                                 absl::StrJoin(info.shape, ", "), "], expected [",
                                                 absl::StrJoin(expected, ", "), "]"));
}

absl::StatusOr<std::unique_ptr<Weight>> WeightLoader::SplitRows(std::initializer_list<Part> parts,
                                                                int64_t cols) const {
  int64_t rows = 0;
  for (const Part& part : parts) {
    RETURN_IF_ERROR(CheckShape(Name(part.name), {part.rows, cols}));
    rows += part.mine.size();
  }
  const Matrix host = staging_->Take(rows, cols, dtype_);
  int64_t at = 0;
  for (const Part& part : parts) {
    RETURN_IF_ERROR(
        checkpoint_.Read(Name(part.name), part.mine, {0, cols}, dtype_, host.At(at, 0), progress_));
    at += part.mine.size();
  }
  return backend_.MakeWeight(host);
}

absl::StatusOr<std::unique_ptr<Weight>> WeightLoader::SplitCols(absl::string_view name,
                                                                int64_t rows, int64_t cols,
                                                                Range mine) const {
  RETURN_IF_ERROR(CheckShape(Name(name), {rows, cols}));
  const Matrix host = staging_->Take(rows, mine.size(), dtype_);
  RETURN_IF_ERROR(checkpoint_.Read(Name(name), {0, rows}, mine, dtype_, host.data, progress_));
  return backend_.MakeWeight(host);
}

absl::StatusOr<OwnedMatrix> WeightLoader::Vector(std::initializer_list<Part> parts) const {
  std::vector<float> values;
  for (const Part& part : parts) {
    RETURN_IF_ERROR(CheckShape(Name(part.name), {part.rows}));
    const size_t at = values.size();
    values.resize(at + static_cast<size_t>(part.mine.size()));
    RETURN_IF_ERROR(checkpoint_.Read(Name(part.name), {0, 1}, part.mine, DType::kF32,
                                     values.data() + at, progress_));
  }
  return UploadFloats(values, 1, std::ssize(values), backend_);
}

absl::StatusOr<OwnedMatrix> UploadFloats(std::span<const float> values, int64_t rows, int64_t cols,
                                         Backend& backend) {
  ASSIGN_OR_RETURN(OwnedMatrix out, backend.Allocate(rows, cols, DType::kF32));
  backend.Upload(values.data(), out.view);
  RETURN_IF_ERROR(backend.Sync());  // an upload may still be reading when it returns
  return out;
}

}  // namespace penstock
