#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "shard/checkpoint/checkpoint.h"

namespace penstock {

// A real checkpoint with some tensors missing or of another shape.
class AlteredCheckpoint final : public Checkpoint {
 public:
  explicit AlteredCheckpoint(const Checkpoint& inner) : inner_(inner) {}
  void Remove(const std::string& name) { shapes_[name] = {}; }
  void Reshape(const std::string& name, std::vector<int64_t> shape) { shapes_[name] = shape; }

  const std::string& path() const override { return inner_.path(); }
  const nlohmann::json& config() const override { return inner_.config(); }
  const nlohmann::json& metadata() const override { return inner_.metadata(); }
  std::vector<TensorInfo> Tensors() const override { return inner_.Tensors(); }
  absl::StatusOr<TensorInfo> Find(absl::string_view name) const override {
    auto info = inner_.Find(name);
    const auto altered = shapes_.find(std::string(name));
    if (!info.ok() || altered == shapes_.end()) return info;
    if (altered->second.empty()) return absl::NotFoundError(absl::StrCat("no tensor ", name));
    info->shape = altered->second;
    return info;
  }
  absl::Status Read(absl::string_view name, Range rows, Range cols, DType dtype, void* out,
                    ReadProgress* progress) const override {
    return inner_.Read(name, rows, cols, dtype, out, progress);
  }

 private:
  const Checkpoint& inner_;
  std::map<std::string, std::vector<int64_t>> shapes_;
};

}  // namespace penstock
