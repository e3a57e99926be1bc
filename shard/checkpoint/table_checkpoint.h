#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shard/checkpoint/checkpoint.h"
#include "shard/checkpoint/file.h"
#include "shard/checkpoint/tensor_table.h"

namespace penstock {

// A checkpoint whose format has been read into a table of tensors; formats differ in how they fill
// it. Immutable once filled.
class TableCheckpoint : public Checkpoint {
 public:
  const std::string& path() const override { return path_; }
  const nlohmann::json& config() const override { return config_; }
  const nlohmann::json& metadata() const override { return metadata_; }
  std::vector<TensorInfo> Tensors() const override { return table_.List(); }
  absl::StatusOr<TensorInfo> Find(absl::string_view name) const override {
    return table_.Describe(name, path_);
  }
  absl::Status Read(absl::string_view name, Range rows, Range cols, DType dtype, void* out,
                    ReadProgress* progress) const override {
    return table_.Read(name, path_, rows, cols, dtype, out, progress);
  }

 protected:
  explicit TableCheckpoint(std::string path) : path_(std::move(path)) {}

  const std::string path_;
  std::vector<std::unique_ptr<File>> files_;  // the table's tensors point into them
  nlohmann::json config_;
  nlohmann::json metadata_;
  TensorTable table_;
};

}  // namespace penstock
