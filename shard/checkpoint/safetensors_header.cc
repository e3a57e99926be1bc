#include <cstdint>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "shard/checkpoint/safetensors.h"

namespace penstock {
namespace {

using nlohmann::json;

// Takes the header event by event: it may be 100 MB, of which a tree of JSON values would make
// gigabytes, and a tree forgets keys that occur twice.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  std::vector<SafetensorsEntry>& entries() { return entries_; }
  const std::string& problem() const { return problem_; }

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("true or false"); }
  bool number_integer(number_integer_t) override { return Unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return Unexpected("a fraction"); }
  bool binary(binary_t&) override { return Unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kNumbers) return Unexpected("a number");
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return Fail("has a number beyond 63 bits");
    if (numbers_.size() == kMaxNumbers) return Fail("has too many dimensions");
    numbers_.push_back(static_cast<int64_t>(value));
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kRemarks) return true;
    if (place_ != Place::kEntry || field_ != "dtype") return Unexpected("a string");
    entries_.back().dtype = std::move(value);
    return true;
  }

  bool key(string_t& name) override {
    switch (place_) {
      case Place::kTop: return BeginTensor(name);
      case Place::kEntry: return BeginField(name);
      case Place::kRemarks: return Once(remarks_, name);
      default: return Unexpected("a key");
    }
  }

  bool start_object(size_t) override {
    if (place_ == Place::kStart) return Enter(Place::kTop);
    if (place_ != Place::kTop) return Unexpected("an object");
    return Enter(name_ == kRemarksKey ? Place::kRemarks : Place::kEntry);
  }

  bool end_object() override {
    if (place_ == Place::kTop) return Enter(Place::kEnd);
    if (place_ == Place::kEntry && fields_.size() != 3)
      return Fail("lacks dtype, shape or data_offsets");
    return Enter(Place::kTop);
  }

  bool start_array(size_t) override {
    if (place_ != Place::kEntry || field_ == "dtype") return Unexpected("an array");
    numbers_.clear();
    return Enter(Place::kNumbers);
  }

  bool end_array() override {
    SafetensorsEntry& entry = entries_.back();
    if (field_ == "shape") {
      entry.shape = std::move(numbers_);
    } else {
      if (numbers_.size() != 2) return Fail("needs two data_offsets");
      entry.bytes = {numbers_[0], numbers_[1]};
    }
    return Enter(Place::kEntry);
  }

  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    problem_ = absl::StrCat("the header is not JSON at byte ", position);
    return false;
  }

 private:
  enum class Place : uint8_t { kStart, kTop, kRemarks, kEntry, kNumbers, kEnd };
  static constexpr size_t kMaxNumbers = 64;
  static constexpr absl::string_view kRemarksKey = "__metadata__";

  bool Enter(Place place) {
    place_ = place;
    return true;
  }

  bool Fail(absl::string_view problem) {
    problem_ = name_.empty() ? std::string(problem) : absl::StrCat("tensor ", name_, ": ", problem);
    return false;
  }

  bool Unexpected(absl::string_view what) {
    return Fail(absl::StrCat("the header has ", what, " in a wrong place",
                             field_.empty() ? "" : absl::StrCat(" (", field_, ")")));
  }

  bool Once(absl::flat_hash_set<std::string>& seen, const std::string& key) {
    return seen.insert(key).second || Fail(absl::StrCat("the key \"", key, "\" occurs twice"));
  }

  bool BeginTensor(const std::string& name) {
    if (!Once(names_, name)) return false;
    name_ = name;
    field_.clear();
    fields_.clear();
    if (name != kRemarksKey) entries_.emplace_back().name = name;
    return true;
  }

  bool BeginField(const std::string& name) {
    if (name != "dtype" && name != "shape" && name != "data_offsets")
      return Fail(absl::StrCat("the key \"", name, "\" is not known"));
    field_ = name;
    return Once(fields_, name);
  }

  Place place_ = Place::kStart;
  std::string name_, field_;  // where we are
  absl::flat_hash_set<std::string> names_, fields_, remarks_;
  std::vector<int64_t> numbers_;
  std::vector<SafetensorsEntry> entries_;
  std::string problem_;
};

}  // namespace

absl::StatusOr<std::vector<SafetensorsEntry>> ParseSafetensorsHeader(absl::string_view text) {
  if (text.empty() || text.front() != '{')
    return absl::InvalidArgumentError("the header does not begin with {");
  HeaderReader reader;
  if (!json::sax_parse(text.begin(), text.end(), &reader))
    return absl::InvalidArgumentError(reader.problem());
  return std::move(reader.entries());
}

}  // namespace penstock
