#include "server/text/json_fields.h"

#include "absl/strings/str_cat.h"
#include "server/text/unicode.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

using nlohmann::json;

std::string Describe(const json& node) {
  const json* type = FindField(node, "type");
  if (type != nullptr && type->is_string()) return type->get_ref<const std::string&>();
  return "tokenizer";
}

}  // namespace

const json* FindField(const json& node, absl::string_view key) {
  if (!node.is_object()) return nullptr;
  const auto it = node.find(std::string(key));
  return it == node.end() || it->is_null() ? nullptr : &*it;
}

absl::Status FieldError(const json& node, absl::string_view key, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(Describe(node), ": field '", key, "' ", problem));
}

absl::StatusOr<std::string> StringField(const json& node, absl::string_view key) {
  const json* field = FindField(node, key);
  if (field == nullptr) return FieldError(node, key, "is missing");
  if (!field->is_string()) return FieldError(node, key, "is not a string");
  return field->get_ref<const std::string&>();
}

absl::StatusOr<std::string> StringField(const json& node, absl::string_view key,
                                        absl::string_view absent) {
  if (FindField(node, key) == nullptr) return std::string(absent);
  return StringField(node, key);
}

absl::StatusOr<bool> BoolField(const json& node, absl::string_view key, bool absent) {
  const json* field = FindField(node, key);
  if (field == nullptr) return absent;
  if (!field->is_boolean()) return FieldError(node, key, "is not true or false");
  return field->get<bool>();
}

absl::StatusOr<int32_t> IdField(const json& node, absl::string_view key) {
  const json* field = FindField(node, key);
  if (field == nullptr) return FieldError(node, key, "is missing");
  if (field->is_number_integer()) {
    const auto value = field->get<int64_t>();
    if (value >= 0 && value <= kMaxTokenId) {
      return static_cast<int32_t>(value);
    }
  }
  return FieldError(node, key, "is not an integer from 0 to 4194303");
}

absl::StatusOr<int32_t> IdField(const json& node, absl::string_view key, int32_t absent) {
  if (FindField(node, key) == nullptr) return absent;
  return IdField(node, key);
}

absl::StatusOr<const json*> ArrayField(const json& node, absl::string_view key) {
  const json* field = FindField(node, key);
  if (field == nullptr) return FieldError(node, key, "is missing");
  if (!field->is_array()) return FieldError(node, key, "is not an array");
  return field;
}

absl::StatusOr<const json*> ObjectField(const json& node, absl::string_view key) {
  const json* field = FindField(node, key);
  if (field == nullptr) return FieldError(node, key, "is missing");
  if (!field->is_object()) return FieldError(node, key, "is not an object");
  return field;
}

absl::StatusOr<std::string> CharacterField(const json& node, absl::string_view key) {
  ASSIGN_OR_RETURN(std::string text, StringField(node, key));
  if (text.empty() || NextUtf8(text).length != static_cast<int>(text.size())) {
    return FieldError(node, key, "is not one character");
  }
  return text;
}

}  // namespace penstock
