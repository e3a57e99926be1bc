#pragma once

#include <cstdint>

#include "shard/backend/backend.h"
#include "shard/model/model_part.h"
#include "shard/model/model_spec.h"
#include "shard/model/scratch.h"

namespace penstock {

// What an encoder's attention computes into.
struct EncoderAttentionScratch {
  EncoderAttentionScratch(const ModelPart& part, int64_t rows, Scratch& from);
  Matrix qkv, mixed;
};

// Pooling and classifying are little work: one rank of the last stage does it.
bool HasEncoderHead(const ModelPart& part);

// Floats of the largest phase for `rows` tokens and `seqs` sequences.
int64_t EncoderScratchFloats(const ModelPart& part, int64_t rows, int64_t seqs);

// Bytes of the weights and vectors that loading allocates.
int64_t EncoderWeightBytes(const ModelSpec& spec, const ModelPart& part, DType dtype,
                           const Backend& backend);

}  // namespace penstock
