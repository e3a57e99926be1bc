#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/strings/string_view.h"

namespace penstock {

// Which layers have a sliding window.
enum class WindowRule : uint8_t {
  kNone,    // the family has none; its keys are ignored
  kAll,     // every layer, unless `sliding_window` is null
  kSwitch,  // only with `use_sliding_window`, from layer `max_window_layers` on
};

// What a family of decoders is when its configuration does not say otherwise: the values an absent
// key takes, and what no key can change. One row of the table per family; adding a decoder that is
// the same computation with other numbers is adding a row.
struct Architecture {
  const char* name;        // `model_type`
  const char* class_name;  // `architectures[0]`

  // Absent keys.
  int32_t vocab, hidden, intermediate, layers, heads;
  int32_t kv_heads;  // 0: as many as heads
  int32_t head_dim;  // 0: hidden / heads
  int32_t max_context;
  float norm_eps;
  float rope_theta;
  bool tied_embeddings;
  int32_t bos, eos;  // -1: none

  // What the family computes.
  bool qkv_bias;        // always on q, k and v, never on o
  bool attention_bias;  // `attention_bias` is read: on q, k, v and o
  bool mlp_bias;        // `mlp_bias` is read
  bool qk_norm;
  WindowRule windows;
  int32_t window;             // absent `sliding_window`
  int32_t window_from_layer;  // absent `max_window_layers`
};

std::span<const Architecture> Architectures();

// By class name or by model type; null when there is none.
const Architecture* FindArchitectureByClass(absl::string_view class_name);
const Architecture* FindArchitectureByType(absl::string_view model_type);

// "llama (LlamaForCausalLM), ..." for error messages.
std::string KnownArchitectures();

}  // namespace penstock
