#include "shard/model/config_reader.h"

#include <cmath>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

using nlohmann::json;

// JSON allows numbers of any size; a double holds every integer that can be in range here.
std::optional<double> NumberOf(const json& value) {
  if (value.is_number_unsigned()) return static_cast<double>(value.get<uint64_t>());
  if (value.is_number_integer()) return static_cast<double>(value.get<int64_t>());
  if (value.is_number_float()) return value.get<double>();
  return std::nullopt;
}

std::optional<int32_t> IntIn(const json& value, int32_t min, int32_t max) {
  const std::optional<double> number = NumberOf(value);
  if (!number || !(*number >= min && *number <= max) || *number != std::floor(*number)) return {};
  return static_cast<int32_t>(*number);
}

std::optional<float> FloatIn(const json& value, float min, float max) {
  const std::optional<double> number = NumberOf(value);
  if (!number || !(*number >= double{min} && *number <= double{max})) return {};  // NaN too
  return static_cast<float>(*number);
}

// What a message quotes of a wrong value: never throws on invalid UTF-8, never floods a log.
std::string Quote(const json& value) {
  constexpr size_t kLongest = 60;
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

}  // namespace

const json* ConfigReader::Find(absl::string_view key) const {
  if (!object_.is_object()) return nullptr;
  const auto found = object_.find(std::string(key));
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool ConfigReader::Has(absl::string_view key) const { return Find(key) != nullptr; }

bool ConfigReader::IsNull(absl::string_view key) const {
  return object_.is_object() && object_.contains(std::string(key)) && !Has(key);
}

absl::Status ConfigReader::Error(absl::string_view key, absl::string_view what) const {
  const std::string full = path_.empty() ? std::string(key) : absl::StrCat(path_, ".", key);
  return absl::InvalidArgumentError(absl::StrCat("model configuration: ", full, " ", what));
}

absl::StatusOr<int32_t> ConfigReader::Int(absl::string_view key, int32_t absent, int32_t min,
                                          int32_t max) const {
  const json* value = Find(key);
  if (value == nullptr) return absent;
  if (const std::optional<int32_t> number = IntIn(*value, min, max)) return *number;
  return Error(
      key, absl::StrCat("is ", Quote(*value), ", expected a whole number from ", min, " to ", max));
}

absl::StatusOr<std::vector<int32_t>> ConfigReader::Ints(absl::string_view key, int32_t min,
                                                        int32_t max) const {
  const json* value = Find(key);
  std::vector<int32_t> out;
  if (value == nullptr) return out;
  const json list = value->is_array() ? *value : json::array({*value});
  for (const json& item : list) {
    const std::optional<int32_t> number = IntIn(item, min, max);
    if (!number)
      return Error(key, absl::StrCat("has ", Quote(item), ", expected whole numbers from ", min,
                                     " to ", max));
    out.push_back(*number);
  }
  return out;
}

absl::StatusOr<float> ConfigReader::Float(absl::string_view key, float absent, float min,
                                          float max) const {
  const json* value = Find(key);
  if (value == nullptr) return absent;
  if (const std::optional<float> number = FloatIn(*value, min, max)) return *number;
  return Error(key,
               absl::StrCat("is ", Quote(*value), ", expected a number from ", min, " to ", max));
}

absl::StatusOr<std::vector<float>> ConfigReader::Floats(absl::string_view key, float min,
                                                        float max) const {
  const json* value = Find(key);
  std::vector<float> out;
  if (value == nullptr) return out;
  if (!value->is_array()) return Error(key, "is not a list of numbers");
  for (const json& item : *value) {
    const std::optional<float> number = FloatIn(item, min, max);
    if (!number)
      return Error(key,
                   absl::StrCat("has ", Quote(item), ", expected numbers from ", min, " to ", max));
    out.push_back(*number);
  }
  return out;
}

absl::StatusOr<bool> ConfigReader::Bool(absl::string_view key, bool absent) const {
  const json* value = Find(key);
  if (value == nullptr) return absent;
  if (value->is_boolean()) return value->get<bool>();
  return Error(key, absl::StrCat("is ", Quote(*value), ", expected true or false"));
}

absl::StatusOr<std::string> ConfigReader::String(absl::string_view key,
                                                 absl::string_view absent) const {
  const json* value = Find(key);
  if (value == nullptr) return std::string(absent);
  if (value->is_string()) return value->get<std::string>();
  return Error(key, absl::StrCat("is ", Quote(*value), ", expected a string"));
}

absl::StatusOr<std::vector<std::string>> ConfigReader::Strings(absl::string_view key) const {
  const json* value = Find(key);
  std::vector<std::string> out;
  if (value == nullptr) return out;
  if (!value->is_array()) return Error(key, "is not a list of strings");
  for (const json& item : *value) {
    if (!item.is_string())
      return Error(key, absl::StrCat("has ", Quote(item), ", expected strings"));
    out.push_back(item.get<std::string>());
  }
  return out;
}

absl::StatusOr<ConfigReader> ConfigReader::Section(absl::string_view key) const {
  const json* value = Find(key);
  if (value == nullptr || !value->is_object()) return Error(key, "is not an object");
  return ConfigReader(*value, path_.empty() ? std::string(key) : absl::StrCat(path_, ".", key));
}

}  // namespace penstock
