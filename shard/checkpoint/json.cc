#include "shard/checkpoint/json.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr size_t kMaxDepth = 64;

// Walks the text once before it is parsed; the parser itself keeps the last of doubled keys and
// nests without bound.
class Inspection : public nlohmann::json_sax<json> {
 public:
  const std::string& problem() const { return problem_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return Descend(); }
  bool end_object() override { return Ascend(); }
  bool start_array(size_t) override { return Descend(); }
  bool end_array() override { return Ascend(); }
  bool key(string_t& name) override {
    if (keys_.back().insert(name).second) return true;
    problem_ = absl::StrCat("the key \"", name, "\" occurs twice");
    return false;
  }
  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    problem_ = absl::StrCat("not JSON at byte ", position);
    return false;
  }

 private:
  bool Descend() {
    keys_.emplace_back();
    if (keys_.size() <= kMaxDepth) return true;
    problem_ = absl::StrCat("nested deeper than ", kMaxDepth);
    return false;
  }
  bool Ascend() {
    keys_.pop_back();
    return true;
  }

  std::vector<absl::flat_hash_set<std::string>> keys_;  // of each open object or array
  std::string problem_;
};

}  // namespace

absl::StatusOr<json> ParseJson(absl::string_view text, absl::string_view source) {
  Inspection inspection;
  if (!json::sax_parse(text.begin(), text.end(), &inspection))
    return absl::InvalidArgumentError(absl::StrCat(source, ": ", inspection.problem()));
  return json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
}

const json* FindMember(const json& value, absl::string_view key) {
  if (!value.is_object()) return nullptr;
  const auto found = value.find(std::string(key));
  return found == value.end() ? nullptr : &*found;
}

}  // namespace penstock
