#pragma once

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"

namespace penstock {

// Whether the whole text is a finite number, written in decimal. absl's readers also accept blanks
// around a number, hexadecimal ones, "inf" and "nan".
inline bool ParseDecimal(absl::string_view text, double* value) {
  return text.find_first_not_of("0123456789+-.eE") == absl::string_view::npos &&
         absl::SimpleAtod(text, value) && std::isfinite(*value);
}

}  // namespace penstock
