#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "server/text/tokenizer.h"

namespace penstock {

// Builds the tokenizer that a tokenizer.json describes. Errors name the part and the field. What a
// server does not want (truncation, padding) is ignored; what would change ids and is not supported
// is an error.
absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerFromJson(const nlohmann::json& document);

}  // namespace penstock
