#pragma once

#include <cstdint>

namespace penstock {

// The block formats of ggml (github.com/ggml-org/ggml), each turned into floats with the roundings
// of its reference: y = d q [+ m] for the plain ones, y = (d s) q [- (dmin m)] for the K ones,
// whose super-blocks of 256 hold scales s and minima m of 16 or 32 elements each. `blocks` need no
// alignment; `count` blocks give count * 32 or count * 256 floats.

void DequantizeQ4_0(const uint8_t* blocks, int64_t count, float* out);
void DequantizeQ4_1(const uint8_t* blocks, int64_t count, float* out);
void DequantizeQ5_0(const uint8_t* blocks, int64_t count, float* out);
void DequantizeQ5_1(const uint8_t* blocks, int64_t count, float* out);
void DequantizeQ8_0(const uint8_t* blocks, int64_t count, float* out);
void DequantizeQ4_K(const uint8_t* blocks, int64_t count, float* out);
void DequantizeQ5_K(const uint8_t* blocks, int64_t count, float* out);
void DequantizeQ6_K(const uint8_t* blocks, int64_t count, float* out);

}  // namespace penstock
