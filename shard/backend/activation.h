#pragma once

#include <cstdint>

namespace penstock {

// A function of one number, of those that models name.
enum class Activation : uint8_t {
  kGelu,      // x * Phi(x), Phi the normal distribution (Hendrycks and Gimpel 2016)
  kGeluTanh,  // its approximation 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
  kRelu,
  kTanh,
};

}  // namespace penstock
