#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shard/backend/backend.h"
#include "shard/base/range.h"
#include "shard/checkpoint/checkpoint.h"

namespace penstock {

// Reads one rank's part of a checkpoint into packed weights. What to read is said as ranges; nothing
// else of the file is touched. Every error names the tensor and what was expected of it.
class WeightLoader {
 public:
  // Borrows all three. Weights are packed in `dtype`; vectors (norms, biases) stay f32.
  WeightLoader(const Checkpoint& checkpoint, Backend& backend, DType dtype, ReadProgress* progress)
      : checkpoint_(checkpoint), backend_(backend), dtype_(dtype), progress_(progress) {}

  WeightLoader Under(absl::string_view prefix) const;  // names get "prefix."

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
  // Vectors: the parts' elements, one behind the other, as [1, n] f32.
  absl::StatusOr<OwnedMatrix> Vector(std::initializer_list<Part> parts) const;

 private:
  const Checkpoint& checkpoint_;
  Backend& backend_;
  DType dtype_;
  ReadProgress* progress_;
  std::string prefix_;
};

}  // namespace penstock
