#pragma once

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace penstock {

// The tokenizer.json that says the same as a GGUF file's tokenizer.ggml.* metadata: model "gpt2"
// (byte-level BPE, its way of cutting words named by "pre"), "llama" (SentencePiece-style BPE with
// scores), "bert" (WordPiece of lower-case text: the file does not say what else was done to it) or
// "t5" (Unigram). Errors name the key.
absl::StatusOr<nlohmann::json> TokenizerJsonFromGguf(const nlohmann::json& metadata);

}  // namespace penstock
