#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "shard/checkpoint/checkpoint.h"

namespace penstock {

// A Llama without a file: its weights are made while they are read, each a hash of (seed, tensor,
// place), so any window of a tensor has the same values always. Weights are about normal with a
// standard deviation of 0.02, those of norms are 1. Speed depends on a model's shape, not on its
// weights. Immutable, thread-safe.
class RandomCheckpoint final : public Checkpoint {
 public:
  // `shape`: "1.1b" (TinyLlama's), "135m" (SmolLM2's) or "small". InvalidArgument names those there
  // are.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Create(absl::string_view shape, uint64_t seed);
  static bool HasShape(absl::string_view shape);

  const std::string& path() const override { return path_; }
  const nlohmann::json& config() const override { return config_; }
  const nlohmann::json& metadata() const override { return metadata_; }
  std::vector<TensorInfo> Tensors() const override;
  absl::StatusOr<TensorInfo> Find(absl::string_view name) const override;
  absl::Status Read(absl::string_view name, Range rows, Range cols, DType dtype, void* out,
                    ReadProgress* progress) const override;

 private:
  struct Shape;
  RandomCheckpoint(const Shape& shape, uint64_t seed);
  static const Shape* FindShape(absl::string_view name);
  void Add(const std::string& name, std::vector<int64_t> shape);

  const std::string path_;
  const uint64_t seed_;
  nlohmann::json config_;
  nlohmann::json metadata_;
  std::map<std::string, TensorInfo, std::less<>> tensors_;
};

// A random model when `model` is the name of such a shape, else the checkpoint at that path.
absl::StatusOr<std::unique_ptr<Checkpoint>> OpenModel(const std::string& model);

}  // namespace penstock
