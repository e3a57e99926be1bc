#include "cli/setting_table.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "shard/base/decimal.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

absl::Status Expected(absl::string_view what, absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat("expected ", what, ", not \"", text, "\""));
}

// absl's number readers accept blanks around a number.
bool HasBlank(absl::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; });
}

template <typename T>
absl::Status ParseInteger(absl::string_view text, T* value) {
  T parsed = 0;
  if (HasBlank(text) || !absl::SimpleAtoi(text, &parsed)) {
    const char* what = std::is_signed_v<T> ? "a whole number" : "a whole number of at least 0";
    return Expected(what, text);
  }
  *value = parsed;
  return absl::OkStatus();
}

// Levenshtein's edit distance, by rows.
size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

absl::Status InFile(const std::string& path, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", message));
}

// A scalar's text, or a list's texts joined by commas.
absl::Status YamlText(const YAML::Node& node, std::string* text) {
  if (node.IsNull()) return absl::InvalidArgumentError("has no value");
  if (node.IsScalar()) {
    *text = node.Scalar();
    return absl::OkStatus();
  }
  if (!node.IsSequence()) return absl::InvalidArgumentError("must be a value or a list");
  std::vector<std::string> parts;
  for (const YAML::Node& item : node) {
    if (!item.IsScalar()) return absl::InvalidArgumentError("must be a list of values");
    parts.push_back(item.Scalar());
  }
  *text = absl::StrJoin(parts, ",");
  return absl::OkStatus();
}

}  // namespace

absl::Status ParseSetting(absl::string_view text, std::string* value) {
  *value = std::string(text);
  return absl::OkStatus();
}

absl::Status ParseSetting(absl::string_view text, bool* value) {
  if (text != "true" && text != "false") return Expected("true or false", text);
  *value = text == "true";
  return absl::OkStatus();
}

absl::Status ParseSetting(absl::string_view text, int32_t* value) {
  return ParseInteger(text, value);
}
absl::Status ParseSetting(absl::string_view text, uint32_t* value) {
  return ParseInteger(text, value);
}
absl::Status ParseSetting(absl::string_view text, uint64_t* value) {
  return ParseInteger(text, value);
}

absl::Status ParseSetting(absl::string_view text, float* value) {
  double parsed = 0;
  if (!ParseDecimal(text, &parsed) || !std::isfinite(static_cast<float>(parsed)))
    return Expected("a number", text);
  *value = static_cast<float>(parsed);
  return absl::OkStatus();
}

absl::Status ParseSetting(absl::string_view text, absl::Duration* value) {
  double seconds = 0;
  if (!ParseDecimal(text, &seconds) || !(seconds >= 0 && seconds <= 1e9))
    return Expected("seconds in [0, 1e9]", text);
  *value = absl::Seconds(seconds);
  return absl::OkStatus();
}

absl::Status ParseSetting(absl::string_view text, std::vector<int>* value) {
  std::vector<int> parsed;
  if (!text.empty())
    for (absl::string_view part : absl::StrSplit(text, ','))
      RETURN_IF_ERROR(ParseInteger(part, &parsed.emplace_back()));
  *value = std::move(parsed);
  return absl::OkStatus();
}

std::string FormatSetting(const std::string& value) { return value; }
std::string FormatSetting(bool value) { return value ? "true" : "false"; }
std::string FormatSetting(int32_t value) { return absl::StrCat(value); }
std::string FormatSetting(uint32_t value) { return absl::StrCat(value); }
std::string FormatSetting(uint64_t value) { return absl::StrCat(value); }
std::string FormatSetting(float value) { return absl::StrCat(value); }
std::string FormatSetting(absl::Duration value) {
  return absl::StrCat(absl::ToDoubleSeconds(value));
}
std::string FormatSetting(const std::vector<int>& value) { return absl::StrJoin(value, ","); }

void SettingTable::AddBounded(const std::string& name, const std::string& help, int32_t low,
                              int32_t high, int32_t* value) {
  const auto parse = [low, high, value](absl::string_view text) -> absl::Status {
    int32_t parsed = 0;
    if (!ParseInteger(text, &parsed).ok() || parsed < low || parsed > high)
      return Expected(absl::StrCat("a whole number in [", low, ", ", high, "]"), text);
    *value = parsed;
    return absl::OkStatus();
  };
  AddRow({name, help, false, parse, [value] { return FormatSetting(*value); }});
}

void SettingTable::AddChoice(const std::string& name, const std::string& help,
                             const std::vector<std::string>& choices, std::string* value) {
  const auto parse = [choices, value](absl::string_view text) -> absl::Status {
    if (std::find(choices.begin(), choices.end(), text) == choices.end())
      return Expected(absl::StrCat("one of ", absl::StrJoin(choices, ", ")), text);
    *value = std::string(text);
    return absl::OkStatus();
  };
  AddRow({name, help + " (" + absl::StrJoin(choices, "|") + ")", false, parse,
          [value] { return *value; }});
}

absl::Status SettingTable::Set(absl::string_view name, absl::string_view text) {
  for (Row& row : rows_) {
    if (row.name != name) continue;
    const absl::Status status = row.parse(text);
    if (status.ok()) row.was_set = row.format() != row.declared;
    if (status.ok()) return status;
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", status.message()));
  }
  const std::string nearest = Nearest(name);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown setting \"", name, "\"",
                   nearest.empty() ? "" : absl::StrCat("; did you mean \"", nearest, "\"?")));
}

std::string SettingTable::Nearest(absl::string_view name) const {
  std::string best;
  size_t least = std::max<size_t>(2, name.size() / 3) + 1;  // further away is no suggestion
  for (const Row& row : rows_) {
    const size_t distance = EditDistance(name, row.name);
    if (distance >= least) continue;
    least = distance;
    best = row.name;
  }
  return best;
}

absl::Status SettingTable::LoadYaml(const std::string& path) {
  std::error_code error_code;
  if (!std::filesystem::is_regular_file(path, error_code))
    return InFile(path, error_code ? error_code.message() : "is not a regular file");
  std::ifstream file(path);
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(file);
    if (file.bad() || !file.is_open()) return InFile(path, "cannot be read");
    if (documents.size() > 1) return InFile(path, "holds more than one document");
    if (documents.empty() || documents[0].IsNull()) return absl::OkStatus();
    const YAML::Node& root = documents[0];
    if (!root.IsMap()) return InFile(path, "must be a mapping of settings");
    std::set<std::string> seen;
    for (const auto& entry : root) {
      const std::string name = entry.first.as<std::string>();
      if (!seen.insert(name).second) return InFile(path, absl::StrCat(name, " is set twice"));
      std::string text;
      if (const absl::Status status = YamlText(entry.second, &text); !status.ok())
        return InFile(path, absl::StrCat(name, " ", status.message()));
      if (const absl::Status status = Set(name, text); !status.ok())
        return InFile(path, status.message());
    }
  } catch (const std::exception& error) {
    return InFile(path, error.what());
  }
  return absl::OkStatus();
}

std::string SettingTable::ToYaml() const {
  YAML::Emitter out;
  out << YAML::BeginMap;
  for (const Row& row : rows_) out << YAML::Key << row.name << YAML::Value << row.format();
  out << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

std::vector<std::pair<std::string, std::string>> SettingTable::Values() const {
  std::vector<std::pair<std::string, std::string>> values;
  for (const Row& row : rows_) values.emplace_back(row.name, row.format());
  return values;
}

void SettingTable::DeclareFlags(CLI::App& app) {
  for (Row& row : rows_) {
    const std::string flag = "--" + row.name, help = row.help + " [" + row.format() + "]";
    row.flag = row.is_switch ? app.add_flag(flag, row.flag_text, help)
                             : app.add_option(flag, row.flag_text, help);
  }
}

absl::Status SettingTable::ApplyFlags() {
  for (Row& row : rows_) {
    if (row.flag == nullptr || row.flag->count() == 0) continue;
    if (const absl::Status status = row.parse(row.flag_text); !status.ok())
      return absl::InvalidArgumentError(absl::StrCat("--", row.name, ": ", status.message()));
    row.was_set = true;
  }
  return absl::OkStatus();
}

bool SettingTable::WasSet(absl::string_view name) const {
  return std::any_of(rows_.begin(), rows_.end(),
                     [&](const Row& row) { return row.name == name && row.was_set; });
}

absl::Status SettingTable::CheckUses(const std::vector<SettingUse>& uses) const {
  for (const SettingUse& use : uses)
    if (!use.has_meaning && WasSet(use.name))
      return absl::InvalidArgumentError(
          absl::StrCat("--", use.name, " goes with ", use.company, " alone"));
  return absl::OkStatus();
}

}  // namespace penstock
