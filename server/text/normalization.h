#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace penstock {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// The normal form of valid UTF-8 (Unicode standard annex 15), in time linear in the text but for
// the sorting of combining marks, which is n log n. Characters younger than Unicode 9 are left as
// they are, as in the reference tokenizers.
std::string Normalize(NormalForm form, absl::string_view text);

// False: the text is in this form already. True says nothing.
bool MayNeedNormalization(NormalForm form, absl::string_view text);

// Every character's lower case, whatever is around it.
std::string LowerCase(absl::string_view text);

// Valid UTF-8 without the characters of a class.
std::string RemoveCharacters(absl::string_view text, bool (*is_removed)(char32_t));

}  // namespace penstock
