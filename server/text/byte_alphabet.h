#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace penstock {

// GPT-2's spelling of bytes as printable characters (Radford et al. 2019, encoder.py): the
// printable bytes of Latin-1 stand for themselves, the other 68 are U+0100, U+0101, ... in
// increasing order.

// Every byte as its character, UTF-8.
std::string ToByteAlphabet(absl::string_view bytes);

// The bytes that `text` (valid UTF-8) spells. False, with `bytes` left alone, when a character of
// it stands for no byte.
bool FromByteAlphabet(absl::string_view text, std::string* bytes);

}  // namespace penstock
