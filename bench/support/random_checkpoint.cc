#include "bench/support/random_checkpoint.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "shard/base/half.h"
#include "shard/base/status_macros.h"

namespace penstock {

struct RandomCheckpoint::Shape {
  absl::string_view name;
  int64_t hidden, layers, heads, kv_heads, head_dim, intermediate, vocab;
  bool tied;
};

namespace {

constexpr int kLanes = 4;      // values from one hash, 16 bits each
constexpr int kValues = 4096;  // different ones
constexpr double kDeviation = 0.02;

// The finalizer of SplitMix64 (Steele et al., OOPSLA'14).
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t HashName(absl::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return Mix(hash);
}

// A sum of four uniform numbers is about normal, with a variance of a third.
float NormalValue(uint64_t bits) {
  double sum = 0;
  for (int i = 0; i < kLanes; ++i) sum += static_cast<double>(bits >> (16 * i) & 0xffff) / 65535.0;
  return static_cast<float>((sum - 2.0) * std::sqrt(3.0) * kDeviation);
}

template <typename T, typename Convert>
std::array<T, kValues> MakeValues(Convert convert) {
  std::array<T, kValues> values;
  for (size_t i = 0; i < kValues; ++i) values[i] = convert(NormalValue(Mix(i)));
  return values;
}

// Elements [begin, end) of the tensor with this key, counted in row-major order.
template <typename T>
T* Fill(const std::array<T, kValues>& values, uint64_t key, int64_t begin, int64_t end, T* out) {
  uint64_t bits = 0;
  for (int64_t i = begin; i < end; ++i) {
    if (i == begin || i % kLanes == 0) bits = Mix(key + static_cast<uint64_t>(i / kLanes));
    *out++ = values[bits >> (16 * (i % kLanes)) & (kValues - 1)];
  }
  return out;
}

template <typename T>
void FillWindow(const std::array<T, kValues>& values, uint64_t key, int64_t width, Range rows,
                Range cols, void* out) {
  T* to = static_cast<T*>(out);
  for (int64_t row = rows.begin; row < rows.end; ++row)
    to = Fill(values, key, row * width + cols.begin, row * width + cols.end, to);
}

absl::Status FillRandom(uint64_t key, int64_t width, Range rows, Range cols, DType dtype,
                        void* out) {
  static const auto floats = MakeValues<float>([](float value) { return value; });
  static const auto halves = MakeValues<uint16_t>(FloatToHalf);
  static const auto bf16s = MakeValues<uint16_t>(FloatToBf16);
  if (dtype == DType::kF32) FillWindow(floats, key, width, rows, cols, out);
  if (dtype == DType::kF16) FillWindow(halves, key, width, rows, cols, out);
  if (dtype == DType::kBF16) FillWindow(bf16s, key, width, rows, cols, out);
  return absl::OkStatus();
}

absl::Status FillOnes(int64_t count, DType dtype, void* out) {
  if (dtype == DType::kF32) std::fill_n(static_cast<float*>(out), count, 1.0f);
  if (dtype == DType::kF16) std::fill_n(static_cast<uint16_t*>(out), count, FloatToHalf(1.0f));
  if (dtype == DType::kBF16) std::fill_n(static_cast<uint16_t*>(out), count, FloatToBf16(1.0f));
  return absl::OkStatus();
}

}  // namespace

const RandomCheckpoint::Shape* RandomCheckpoint::FindShape(absl::string_view name) {
  static constexpr Shape kShapes[] = {
      {"1.1b", 2048, 22, 32, 4, 64, 5632, 32000, false},
      {"135m", 576, 30, 9, 3, 64, 1536, 49152, true},
      {"small", 256, 4, 4, 2, 64, 768, 8192, true},
  };
  const auto* found = std::find_if(std::begin(kShapes), std::end(kShapes),
                                   [&](const Shape& shape) { return shape.name == name; });
  return found == std::end(kShapes) ? nullptr : found;
}

bool RandomCheckpoint::HasShape(absl::string_view shape) { return FindShape(shape) != nullptr; }

absl::StatusOr<std::unique_ptr<Checkpoint>> RandomCheckpoint::Create(absl::string_view shape,
                                                                     uint64_t seed) {
  const Shape* found = FindShape(shape);
  if (found == nullptr)
    return absl::InvalidArgumentError(absl::StrCat("no random model has the shape \"", shape,
                                                   "\"; there are small, 1.1b and 135m"));
  return std::unique_ptr<Checkpoint>(new RandomCheckpoint(*found, seed));
}

RandomCheckpoint::RandomCheckpoint(const Shape& shape, uint64_t seed)
    : path_(absl::StrCat("random ", shape.name)), seed_(seed) {
  config_ = {{"architectures", {"LlamaForCausalLM"}},
             {"hidden_size", shape.hidden},
             {"num_hidden_layers", shape.layers},
             {"num_attention_heads", shape.heads},
             {"num_key_value_heads", shape.kv_heads},
             {"head_dim", shape.head_dim},
             {"intermediate_size", shape.intermediate},
             {"vocab_size", shape.vocab},
             {"max_position_embeddings", 8192},
             {"tie_word_embeddings", shape.tied},
             {"torch_dtype", "float16"}};
  const int64_t q = shape.heads * shape.head_dim, kv = shape.kv_heads * shape.head_dim;
  Add("model.embed_tokens.weight", {shape.vocab, shape.hidden});
  if (!shape.tied) Add("lm_head.weight", {shape.vocab, shape.hidden});
  Add("model.norm.weight", {shape.hidden});
  for (int64_t i = 0; i < shape.layers; ++i) {
    const std::string layer = absl::StrCat("model.layers.", i, ".");
    for (const char* norm : {"input_layernorm.weight", "post_attention_layernorm.weight"})
      Add(layer + norm, {shape.hidden});
    Add(layer + "self_attn.q_proj.weight", {q, shape.hidden});
    Add(layer + "self_attn.k_proj.weight", {kv, shape.hidden});
    Add(layer + "self_attn.v_proj.weight", {kv, shape.hidden});
    Add(layer + "self_attn.o_proj.weight", {shape.hidden, q});
    Add(layer + "mlp.gate_proj.weight", {shape.intermediate, shape.hidden});
    Add(layer + "mlp.up_proj.weight", {shape.intermediate, shape.hidden});
    Add(layer + "mlp.down_proj.weight", {shape.hidden, shape.intermediate});
  }
}

void RandomCheckpoint::Add(const std::string& name, std::vector<int64_t> shape) {
  int64_t bytes = 2;
  for (const int64_t extent : shape) bytes *= extent;
  tensors_[name] = {
      .name = name, .shape = std::move(shape), .stored_type = "F16", .stored_bytes = bytes};
}

std::vector<TensorInfo> RandomCheckpoint::Tensors() const {
  std::vector<TensorInfo> all;
  for (const auto& [name, info] : tensors_) all.push_back(info);
  return all;
}

absl::StatusOr<TensorInfo> RandomCheckpoint::Find(absl::string_view name) const {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return found->second;
  return absl::NotFoundError(absl::StrCat(path_, ": there is no tensor ", name));
}

absl::Status RandomCheckpoint::Read(absl::string_view name, Range rows, Range cols, DType dtype,
                                    void* out, ReadProgress* /*progress*/) const {
  ASSIGN_OR_RETURN(const TensorInfo info, Find(name));
  const bool vector = info.shape.size() == 1;
  const int64_t height = vector ? 1 : info.shape[0], width = info.shape.back();
  const auto within = [](Range range, int64_t extent) {
    return range.begin >= 0 && range.begin <= range.end && range.end <= extent;
  };
  if (!within(rows, height) || !within(cols, width))
    return absl::OutOfRangeError(absl::StrCat(path_, ": tensor ", name, " is [",
                                              absl::StrJoin(info.shape, ", "),
                                              "], the window goes beyond it"));
  if (dtype == DType::kI32)
    return absl::UnimplementedError(absl::StrCat(path_, ": tensor ", name, " cannot be i32"));
  if (vector) return FillOnes(rows.size() * cols.size(), dtype, out);
  return FillRandom(HashName(name) ^ Mix(seed_), width, rows, cols, dtype, out);
}

absl::StatusOr<std::unique_ptr<Checkpoint>> OpenModel(const std::string& model) {
  if (RandomCheckpoint::HasShape(model)) return RandomCheckpoint::Create(model, 1);
  return Checkpoint::Open(model);
}

}  // namespace penstock
