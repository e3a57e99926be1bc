#pragma once

#include <cstdint>

#include "shard/base/dtype.h"
#include "shard/checkpoint/stored_type.h"

namespace penstock {

// Turns elements [skip, skip + count), counted from the start of `blocks`, into `dtype` (f32, f16,
// bf16), rounding to nearest even. `type` must be readable; plain types must be aligned to their
// element in `blocks`. `blocks` must hold every block that is touched.
void ConvertElements(const StoredType& type, const uint8_t* blocks, int64_t skip, int64_t count,
                     DType dtype, void* out);

// Whether these bytes need no turning.
bool IsStoredAs(Encoding encoding, DType dtype);

// As `half.h` for every finite value and infinity, many at a time.
void HalvesToFloats(const uint16_t* halves, int64_t count, float* out);
void FloatsToHalves(const float* values, int64_t count, uint16_t* out);

}  // namespace penstock
