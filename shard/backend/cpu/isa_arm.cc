#include "shard/backend/cpu/isa.h"

namespace penstock {

std::span<const Isa> AvailableIsas() {
  static constexpr Isa kIsas[] = {{"neon", &kNeonKernels, nullptr},
                                  {"scalar", &kScalarKernels, nullptr}};
  return kIsas;
}

}  // namespace penstock
