#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace penstock {

// Checked access to one JSON object of a model's configuration. A value that is absent, or null
// where nothing else is said, takes the default given; a value of another type or outside [min,
// max] is InvalidArgument, naming the key. Nothing here throws. Borrows the object.
class ConfigReader {
 public:
  // `path` is put before the keys in error messages: "rope_scaling" gives "rope_scaling.factor".
  explicit ConfigReader(const nlohmann::json& object, absl::string_view path = "")
      : object_(object), path_(path) {}

  bool Has(absl::string_view key) const;          // present and not null
  bool IsNull(absl::string_view key) const;       // present and null
  size_t size() const { return object_.size(); }  // keys

  // Whole numbers; 4096.0 counts as one.
  absl::StatusOr<int32_t> Int(absl::string_view key, int32_t absent, int32_t min,
                              int32_t max) const;
  // A whole number or a list of them; empty when absent.
  absl::StatusOr<std::vector<int32_t>> Ints(absl::string_view key, int32_t min, int32_t max) const;
  absl::StatusOr<float> Float(absl::string_view key, float absent, float min, float max) const;
  absl::StatusOr<std::vector<float>> Floats(absl::string_view key, float min, float max) const;
  absl::StatusOr<bool> Bool(absl::string_view key, bool absent) const;
  absl::StatusOr<std::string> String(absl::string_view key, absl::string_view absent) const;
  absl::StatusOr<std::vector<std::string>> Strings(absl::string_view key) const;  // a list
  // The object under `key`; Has(key) must be true.
  absl::StatusOr<ConfigReader> Section(absl::string_view key) const;

  absl::Status Error(absl::string_view key, absl::string_view what) const;  // "key what"

 private:
  const nlohmann::json* Find(absl::string_view key) const;  // null when absent or null

  const nlohmann::json& object_;
  std::string path_;
};

}  // namespace penstock
