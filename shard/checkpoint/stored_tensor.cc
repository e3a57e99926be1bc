#include "shard/checkpoint/stored_tensor.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "shard/base/status_macros.h"
#include "shard/checkpoint/convert.h"

namespace penstock {
namespace {

constexpr int64_t kStagingBytes = 1 << 20;
constexpr int64_t kReadAhead = 64 << 20;     // bytes behind a tensor: whatever is wanted next
constexpr int64_t kWorthSeeking = 64 << 10;  // bytes of a row
constexpr int64_t kWorthSeekingShare = 8;    // of a row's bytes

// One call of ReadWindow. Rows of the file are walked in their order; each lands where its reader
// expects it.
class WindowReader {
 public:
  WindowReader(const StoredTensor& tensor, MatrixShape shape, Range rows, Range cols, DType dtype,
               void* out, ReadProgress* progress)
      : tensor_(tensor),
        type_(*tensor.type),
        shape_(shape),
        rows_(rows),
        cols_(cols),
        dtype_(dtype),
        out_(static_cast<uint8_t*>(out)),
        progress_(progress) {
    row_bytes_ = BlocksBefore(shape.cols) * type_.block_bytes;
    blocks_ = {cols.begin / type_.block_elements, BlocksBefore(cols.end)};
  }

  absl::Status Read() {
    const int64_t wanted = blocks_.size() * type_.block_bytes;
    const bool seek = wanted >= kWorthSeeking && wanted < row_bytes_ / kWorthSeekingShare;
    const Range stored = StoredRows();
    if (!seek)
      tensor_.file->Expect(tensor_.offset + stored.begin * row_bytes_,
                           stored.size() * row_bytes_ + kReadAhead);
    if (AsStored()) return ReadInPlace();
    if (seek || row_bytes_ > kStagingBytes) return ReadPieces(stored);
    return ReadWholeRows(stored);
  }

 private:
  int64_t BlocksBefore(int64_t element) const {
    return (element + type_.block_elements - 1) / type_.block_elements;
  }

  // Whether the file's bytes are the ones to return, in one piece.
  bool AsStored() const {
    return cols_.size() == shape_.cols && tensor_.interleaved_rows == 0 &&
           IsStoredAs(type_.encoding, dtype_);
  }

  absl::Status ReadInPlace() {
    for (int64_t row = rows_.begin; row < rows_.end;) {
      const int64_t count = std::clamp<int64_t>(kStagingBytes / row_bytes_, 1, rows_.end - row);
      const int64_t bytes = count * row_bytes_;
      RETURN_IF_ERROR(tensor_.file->ReadAt(tensor_.offset + row * row_bytes_, bytes,
                                           out_ + (row - rows_.begin) * row_bytes_));
      if (progress_ != nullptr) progress_->file_bytes += bytes;
      Count(bytes);
      row += count;
    }
    return absl::OkStatus();
  }

  // The rows of the file that hold the wanted ones.
  Range StoredRows() const {
    const int64_t group = tensor_.interleaved_rows;
    if (group == 0) return rows_;
    return {rows_.begin / group * group, (rows_.end + group - 1) / group * group};
  }

  // The reader's number for a row of the file.
  int64_t VisibleRow(int64_t stored) const {
    const int64_t group = tensor_.interleaved_rows;
    if (group == 0) return stored;
    const int64_t within = stored % group;
    return stored - within + within % 2 * (group / 2) + within / 2;
  }

  bool Wanted(int64_t visible) const { return rows_.begin <= visible && visible < rows_.end; }

  absl::Status ReadWholeRows(Range stored) {
    const int64_t batch = std::clamp<int64_t>(kStagingBytes / row_bytes_, 1, stored.size());
    Reserve(batch * row_bytes_);
    for (int64_t row = stored.begin; row < stored.end; row += batch) {
      const int64_t count = std::min(batch, stored.end - row);
      RETURN_IF_ERROR(Fetch(row, 0, count * row_bytes_));
      for (int64_t i = 0; i < count; ++i)
        Place(VisibleRow(row + i), staging_.get() + i * row_bytes_);
    }
    return absl::OkStatus();
  }

  void Place(int64_t visible, const uint8_t* row) {
    if (!Wanted(visible)) return;
    Convert(visible, row, cols_.begin, cols_);
    Count(blocks_.size() * type_.block_bytes);
  }

  // Row by row, of each only the wanted blocks, in pieces that fit the buffer.
  absl::Status ReadPieces(Range stored) {
    const int64_t batch = std::clamp<int64_t>(kStagingBytes / type_.block_bytes, 1, blocks_.size());
    Reserve(batch * type_.block_bytes);
    for (int64_t row = stored.begin; row < stored.end; ++row) {
      const int64_t visible = VisibleRow(row);
      if (!Wanted(visible)) continue;
      for (int64_t block = blocks_.begin; block < blocks_.end; block += batch)
        RETURN_IF_ERROR(ReadPiece(row, visible, {block, std::min(block + batch, blocks_.end)}));
    }
    return absl::OkStatus();
  }

  absl::Status ReadPiece(int64_t row, int64_t visible, Range blocks) {
    const int64_t bytes = blocks.size() * type_.block_bytes;
    RETURN_IF_ERROR(Fetch(row, blocks.begin * type_.block_bytes, bytes));
    const int64_t first = blocks.begin * type_.block_elements;
    const Range cols = {std::max(cols_.begin, first),
                        std::min(cols_.end, blocks.end * type_.block_elements)};
    Convert(visible, staging_.get(), cols.begin - first, cols);
    Count(bytes);
    return absl::OkStatus();
  }

  void Reserve(int64_t bytes) { staging_.reset(new uint8_t[static_cast<size_t>(bytes)]); }

  absl::Status Fetch(int64_t row, int64_t offset, int64_t bytes) {
    RETURN_IF_ERROR(
        tensor_.file->ReadAt(tensor_.offset + row * row_bytes_ + offset, bytes, staging_.get()));
    if (progress_ != nullptr) progress_->file_bytes += bytes;
    return absl::OkStatus();
  }

  // Columns `cols` of a visible row, which begin `skip` elements after `blocks`.
  void Convert(int64_t visible, const uint8_t* blocks, int64_t skip, Range cols) {
    const int64_t at = (visible - rows_.begin) * cols_.size() + cols.begin - cols_.begin;
    ConvertElements(type_, blocks, skip, cols.size(), dtype_,
                    out_ + at * static_cast<int64_t>(SizeOf(dtype_)));
  }

  void Count(int64_t wanted) {
    if (progress_ != nullptr) progress_->wanted_bytes += wanted;
  }

  const StoredTensor& tensor_;
  const StoredType& type_;
  const MatrixShape shape_;
  const Range rows_, cols_;
  const DType dtype_;
  uint8_t* const out_;
  ReadProgress* const progress_;
  int64_t row_bytes_ = 0;
  Range blocks_;  // of a row, those that hold the wanted columns
  std::unique_ptr<uint8_t[]> staging_;
};

absl::Status CheckRange(const char* what, Range range, int64_t size) {
  if (range.begin >= 0 && range.begin <= range.end && range.end <= size) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat(what, " ", range.begin, " to ", range.end,
                                            " are asked for, but there are ", size));
}

}  // namespace

MatrixShape ShapeAsMatrix(const std::vector<int64_t>& shape) {
  if (shape.empty()) return {1, 1};
  MatrixShape matrix{1, shape.back()};
  for (size_t i = 0; i + 1 < shape.size(); ++i) matrix.rows *= shape[i];
  return matrix;
}

absl::StatusOr<int64_t> CountElements(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  bool empty = false;
  for (const int64_t size : shape) {
    if (size < 0) return absl::InvalidArgumentError("has a negative dimension");
    empty |= size == 0;
    if (__builtin_mul_overflow(product, std::max<int64_t>(size, 1), &product))
      return absl::InvalidArgumentError("has more elements than there can be");
  }
  return empty ? 0 : product;
}

absl::Status ReadWindow(const StoredTensor& tensor, Range rows, Range cols, DType dtype, void* out,
                        ReadProgress* progress) {
  MatrixShape shape = ShapeAsMatrix(tensor.info.shape);
  RETURN_IF_ERROR(CheckRange("rows", rows, shape.rows));
  RETURN_IF_ERROR(CheckRange("columns", cols, shape.cols));
  if (dtype == DType::kI32) return absl::InvalidArgumentError("cannot be read as i32");
  if (!tensor.type->readable())
    return absl::UnimplementedError(absl::StrCat("is stored as ", tensor.info.stored_type,
                                                 ", which cannot be turned into numbers here"));
  if (rows.size() == 0 || cols.size() == 0) return absl::OkStatus();
  if (tensor.info.shape.size() == 1 && tensor.interleaved_rows > 0) {  // a bias: one element a row
    shape = {shape.cols, 1};
    rows = cols;
    cols = {0, 1};
  }
  return WindowReader(tensor, shape, rows, cols, dtype, out, progress).Read();
}

}  // namespace penstock
