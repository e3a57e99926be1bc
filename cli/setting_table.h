#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace penstock {

// Strict readers: the whole text must be a value of the type. Durations are seconds, lists are
// comma-separated, booleans are "true" or "false". The error says what was expected.
absl::Status ParseSetting(absl::string_view text, std::string* value);
absl::Status ParseSetting(absl::string_view text, bool* value);
absl::Status ParseSetting(absl::string_view text, int32_t* value);
absl::Status ParseSetting(absl::string_view text, uint32_t* value);
absl::Status ParseSetting(absl::string_view text, uint64_t* value);
absl::Status ParseSetting(absl::string_view text, float* value);
absl::Status ParseSetting(absl::string_view text, absl::Duration* value);
absl::Status ParseSetting(absl::string_view text, std::vector<int>* value);
template <typename T>
absl::Status ParseSetting(absl::string_view text, std::optional<T>* value) {
  return ParseSetting(text, &value->emplace());
}

std::string FormatSetting(const std::string& value);
std::string FormatSetting(bool value);
std::string FormatSetting(int32_t value);
std::string FormatSetting(uint32_t value);
std::string FormatSetting(uint64_t value);
std::string FormatSetting(float value);
std::string FormatSetting(absl::Duration value);
std::string FormatSetting(const std::vector<int>& value);
template <typename T>
std::string FormatSetting(const std::optional<T>& value) {
  return value ? FormatSetting(*value) : "";
}

// A setting and whether it has a meaning beside the others.
struct SettingUse {
  std::string name;
  bool has_meaning;
  std::string company;  // what it has a meaning with
};

// Settings declared once, each a name and the field it fills, and read from a YAML file and from
// flags of the same names; flags win. The fields are borrowed and hold the defaults.
class SettingTable {
 public:
  template <typename T>
  void Add(const std::string& name, const std::string& help, T* value) {
    constexpr bool is_switch = std::is_same_v<T, bool> || std::is_same_v<T, std::optional<bool>>;
    AddRow({name, help, is_switch,
            [value](absl::string_view text) { return ParseSetting(text, value); },
            [value] { return FormatSetting(*value); }});
  }
  void AddBounded(const std::string& name, const std::string& help, int32_t low, int32_t high,
                  int32_t* value);
  void AddChoice(const std::string& name, const std::string& help,
                 const std::vector<std::string>& choices, std::string* value);

  // InvalidArgument names the setting; an unknown one with the nearest that exists.
  absl::Status Set(absl::string_view name, absl::string_view text);
  // From a YAML mapping of names to scalars or lists. Errors name the file and the key.
  absl::Status LoadYaml(const std::string& path);
  std::string ToYaml() const;
  // Names and present values, in the order of declaration.
  std::vector<std::pair<std::string, std::string>> Values() const;

  // Declares a flag --name for each setting. What the command line said is kept for ApplyFlags().
  void DeclareFlags(CLI::App& app);
  absl::Status ApplyFlags();

  // By a flag, or by the file to another value than the declared one: a printed configuration names
  // every setting.
  bool WasSet(absl::string_view name) const;
  // InvalidArgument for the first that was set without a meaning.
  absl::Status CheckUses(const std::vector<SettingUse>& uses) const;

 private:
  struct Row {
    std::string name;
    std::string help;
    bool is_switch;  // the flag may stand alone
    std::function<absl::Status(absl::string_view)> parse;
    std::function<std::string()> format;
    std::string declared = {};  // value
    bool was_set = false;
    std::string flag_text = {};
    CLI::Option* flag = nullptr;
  };
  void AddRow(Row row) {
    row.declared = row.format();
    rows_.push_back(std::move(row));
  }
  std::string Nearest(absl::string_view name) const;

  std::deque<Row> rows_;  // addresses stay: CLI11 writes into flag_text
};

}  // namespace penstock
