#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "server/text/regex.h"

namespace penstock {

// The "normalizer" of a tokenizer.json: what is done to a text before it is cut up. Immutable, safe
// to share.
class Normalizer {
 public:
  // One operation on a whole text.
  class Step {
   public:
    virtual ~Step() = default;
    // Changes valid UTF-8 to valid UTF-8. False when the text's first character was removed, so
    // that the result no longer begins where the text does.
    virtual bool Apply(RegexScratch& scratch, std::string* text) const = 0;
    // False only when Apply would leave the text as it is.
    virtual bool MayChange(absl::string_view text) const = 0;
  };

  Normalizer() = default;  // changes nothing
  // `node` may be null (changes nothing). Unknown types are errors that name them.
  static absl::StatusOr<Normalizer> FromJson(const nlohmann::json* node);

  // The normalized text: `text` itself, or a view of `buffer`. `keeps_beginning` (may be null): as
  // Step::Apply says, over all steps.
  absl::string_view Apply(absl::string_view text, RegexScratch& scratch, std::string* buffer,
                          bool* keeps_beginning = nullptr) const;

 private:
  absl::Status Add(const nlohmann::json& node, int depth);

  std::vector<std::unique_ptr<Step>> steps_;
};

}  // namespace penstock
