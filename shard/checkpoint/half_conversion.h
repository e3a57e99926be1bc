#pragma once

#include <cstdint>

namespace penstock {

// The processor's own conversions between fp16 and fp32 (x86: F16C), 8 at a time. Only to be called
// where HasHalfInstructions().

bool HasHalfInstructions();
void HalvesToFloatsByInstruction(const uint16_t* halves, int64_t count, float* out);
void FloatsToHalvesByInstruction(const float* values, int64_t count, uint16_t* out);

}  // namespace penstock
