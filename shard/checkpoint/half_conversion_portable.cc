#include "shard/checkpoint/half_conversion.h"

namespace penstock {

bool HasHalfInstructions() { return false; }
void HalvesToFloatsByInstruction(const uint16_t*, int64_t, float*) {}
void FloatsToHalvesByInstruction(const float*, int64_t, uint16_t*) {}

}  // namespace penstock
