#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "server/text/subword_model.h"

namespace penstock {

// The "model" of a tokenizer.json: BPE, WordPiece or Unigram. `byte_level`: words come as plain
// bytes while the vocabulary is written in the byte alphabet, which only BPE takes. Unknown types,
// and options that would change ids and are not supported, are errors that name them.
absl::StatusOr<std::unique_ptr<SubwordModel>> ModelFromJson(const nlohmann::json& model,
                                                            bool byte_level);

// Its type, "BPE", "WordPiece" or "Unigram"; old files leave it out, the fields tell then.
absl::StatusOr<std::string> ModelType(const nlohmann::json& model);

}  // namespace penstock
