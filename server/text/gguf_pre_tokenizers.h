#pragma once

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace penstock {

// What a name in "tokenizer.ggml.pre" stands for.
struct GgufPreTokenizer {
  nlohmann::json pre_tokenizer;  // as in a tokenizer.json
  nlohmann::json normalizer;
  bool ignore_merges = false;
  bool add_bos = false;  // where the file does not say
};

// False when the name is not known.
bool FindGgufPreTokenizer(absl::string_view name, GgufPreTokenizer* found);

}  // namespace penstock
