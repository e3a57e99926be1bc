#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shard/checkpoint/stored_tensor.h"

namespace penstock {

// The tensors of a checkpoint by name. Filled while it is opened, immutable and safe to share
// thereafter. Errors name the file and the tensor.
class TensorTable {
 public:
  absl::Status Add(StoredTensor tensor);  // InvalidArgument when there is one of that name

  const StoredTensor* Find(absl::string_view name) const;  // null when absent
  std::vector<TensorInfo> List() const;                    // in the order they were added

  // As Checkpoint's. `source` is named when there is no such tensor.
  absl::StatusOr<TensorInfo> Describe(absl::string_view name, const std::string& source) const;
  absl::Status Read(absl::string_view name, const std::string& source, Range rows, Range cols,
                    DType dtype, void* out, ReadProgress* progress) const;

 private:
  std::vector<StoredTensor> tensors_;
  absl::flat_hash_map<std::string, size_t> index_;
};

// `problem` said of a tensor: "FILE: tensor NAME: ...", of the same code.
absl::Status TensorError(const absl::Status& problem, absl::string_view file,
                         absl::string_view name);

}  // namespace penstock
