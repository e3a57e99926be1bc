#include "shard/backend/cpu/isa.h"

namespace penstock {

std::span<const Isa> AvailableIsas() {
  static constexpr Isa kScalar[] = {{"scalar", &kScalarKernels, nullptr}};
  return kScalar;
}

}  // namespace penstock
