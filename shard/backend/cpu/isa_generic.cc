#include <thread>

#include "shard/backend/cpu/isa.h"

namespace penstock {

std::span<const Isa> AvailableIsas() {
  static constexpr Isa kScalar[] = {{"scalar", &kScalarKernels, nullptr}};
  return kScalar;
}

void RelaxProcessor() { std::this_thread::yield(); }

}  // namespace penstock
