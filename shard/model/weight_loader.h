#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shard/backend/backend.h"
#include "shard/base/range.h"
#include "shard/checkpoint/checkpoint.h"

namespace penstock {

// Reads one rank's part of a checkpoint into packed weights. What to read is said as ranges;
// nothing else of the file is touched. Every error names the tensor and what was expected of it.
// One thread at a time.
class WeightLoader {
 public:
  // Borrows all three. Weights are packed in `dtype`; vectors (norms, biases) stay f32.
  WeightLoader(const Checkpoint& checkpoint, Backend& backend, DType dtype, ReadProgress* progress)
      : checkpoint_(checkpoint),
        backend_(backend),
        dtype_(dtype),
        progress_(progress),
        staging_(std::make_shared<Staging>()) {}

  // Names get "prefix." before what they have already.
  WeightLoader Under(absl::string_view prefix) const;

  bool Has(absl::string_view name) const;

  struct Part {
    absl::string_view name;
    int64_t rows = 0;  // of the whole tensor, checked
    Range mine;        // of these, this rank's
  };
  // The parts' rows, stacked, each [rows, cols].
  absl::StatusOr<std::unique_ptr<Weight>> SplitRows(std::initializer_list<Part> parts,
                                                    int64_t cols) const;
  // All rows, columns `mine` of a [rows, cols] tensor.
  absl::StatusOr<std::unique_ptr<Weight>> SplitCols(absl::string_view name, int64_t rows,
                                                    int64_t cols, Range mine) const;
  // Vectors: the parts' elements ([rows] each), one behind the other, as [1, n] f32.
  absl::StatusOr<OwnedMatrix> Vector(std::initializer_list<Part> parts) const;

 private:
  // Host memory for a tensor on its way to the device. It is kept for the next one, since fresh
  // pages cost as much as reading a file into them; loaders made by Under() share it.
  class Staging {
   public:
    Matrix Take(int64_t rows, int64_t cols, DType dtype);

   private:
    std::unique_ptr<std::byte[]> memory_;
    size_t bytes_ = 0;
  };

  std::string Name(absl::string_view name) const;  // in full
  absl::Status CheckShape(absl::string_view name, std::initializer_list<int64_t> expected) const;

  const Checkpoint& checkpoint_;
  Backend& backend_;
  DType dtype_;
  ReadProgress* progress_;
  std::shared_ptr<Staging> staging_;
  std::string prefix_;
};

// A matrix and what is added to its product; an empty bias adds nothing.
struct Linear {
  std::unique_ptr<Weight> weight;
  OwnedMatrix bias;
};

// A [rows, cols] f32 matrix on the backend with these values; the span may die after the call.
absl::StatusOr<OwnedMatrix> UploadFloats(std::span<const float> values, int64_t rows, int64_t cols,
                                         Backend& backend);

}  // namespace penstock
