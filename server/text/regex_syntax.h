#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace penstock {

// Rewrites a regular expression from the Ruby dialect of Oniguruma, in which tokenizer.json is
// written, to PCRE2 with UTF and UCP, where the two read the same text differently: \h and \w,
// \uXXXX, intervals that a '+' or '?' follows, {,n}, the option letter m. What PCRE2 has no
// equivalent for (nested and intersected classes) or must not see ("(*" verbs) is an error that
// quotes the pattern.
absl::StatusOr<std::string> OnigurumaToPcre2(absl::string_view pattern);

}  // namespace penstock
