#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace penstock {

inline constexpr int32_t kMaxTokenId = (1 << 22) - 1;  // bounds the tables that ids index

// Reading a JSON document that nobody vouches for: no function throws, every error names the object
// by its "type" and the field.

// Null when `node` is no object, or lacks the field, or has it as null.
const nlohmann::json* FindField(const nlohmann::json& node, absl::string_view key);

absl::Status FieldError(const nlohmann::json& node, absl::string_view key,
                        absl::string_view problem);

absl::StatusOr<std::string> StringField(const nlohmann::json& node, absl::string_view key);
absl::StatusOr<std::string> StringField(const nlohmann::json& node, absl::string_view key,
                                        absl::string_view absent);
absl::StatusOr<bool> BoolField(const nlohmann::json& node, absl::string_view key, bool absent);
// An integer from 0 to 2^22 - 1, such as a token id.
absl::StatusOr<int32_t> IdField(const nlohmann::json& node, absl::string_view key);
absl::StatusOr<int32_t> IdField(const nlohmann::json& node, absl::string_view key, int32_t absent);
absl::StatusOr<const nlohmann::json*> ArrayField(const nlohmann::json& node, absl::string_view key);
absl::StatusOr<const nlohmann::json*> ObjectField(const nlohmann::json& node,
                                                  absl::string_view key);
// A string of exactly one character (valid UTF-8).
absl::StatusOr<std::string> CharacterField(const nlohmann::json& node, absl::string_view key);

}  // namespace penstock
