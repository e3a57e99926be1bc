#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "shard/base/dtype.h"
#include "shard/base/range.h"

namespace penstock {

struct TensorInfo {
  std::string name;            // Hugging Face spelling, whatever the file calls it
  std::vector<int64_t> shape;  // row-major, outermost first
  std::string stored_type;     // as the file names it: "BF16", "Q4_1", ...
  int64_t stored_bytes = 0;
};

// Written by a reading rank, read by whoever shows progress.
struct ReadProgress {
  std::atomic<int64_t> file_bytes{0};  // read from the disk
  std::atomic<int64_t> wanted_bytes{
      0};  // of these, what the rank needed (amplification = the ratio)
};

// A model on disk: a Hugging Face folder (config.json, model.safetensors or a sharded index) or a
// GGUF file. Immutable after Open, safe to share between rank threads. Nothing in the file is
// trusted: every error names the file and, where there is one, the tensor.
//
// GGUF is presented in Hugging Face's terms: tensor names, config keys, and unpermuted q and k
// rows.
class Checkpoint {
 public:
  // `path` is a folder, a .gguf file, or a folder with exactly one .gguf file.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const std::string& path);
  virtual ~Checkpoint() = default;

  virtual const std::string& path() const = 0;
  // config.json, or its equivalent made from GGUF metadata.
  virtual const nlohmann::json& config() const = 0;
  // GGUF metadata by its own keys ("tokenizer.ggml.tokens", ...); null for a folder. Its strings
  // may be any bytes, of which dump() throws unless told to replace them.
  virtual const nlohmann::json& metadata() const = 0;
  virtual std::vector<TensorInfo> Tensors() const = 0;

  virtual absl::StatusOr<TensorInfo> Find(absl::string_view name) const = 0;  // NotFound

  // Reads the window `rows` x `cols` of a matrix (a vector counts as one row, more dimensions than
  // two fold into the rows), converted to `dtype` (f32, f16, bf16), packed row-major into `out`.
  // Reads no more of the file than the window's rows (whole rows where columns are split and that
  // is faster). NotFound; OutOfRange for a window beyond the tensor; Unimplemented for a stored
  // type that cannot be converted.
  virtual absl::Status Read(absl::string_view name, Range rows, Range cols, DType dtype, void* out,
                            ReadProgress* progress) const = 0;
};

}  // namespace penstock
