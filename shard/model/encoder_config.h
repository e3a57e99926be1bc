#pragma once

#include "absl/status/statusor.h"
#include "shard/model/config_reader.h"
#include "shard/model/encoder_families.h"
#include "shard/model/model_spec.h"

namespace penstock {

// Which one-shot model a configuration names.
struct EncoderClass {
  const EncoderFamily* family = nullptr;  // null: none that is known
  bool classifies = false;                // a classification head; otherwise embeddings
};

// By `architectures`, or where there is none by `model_type`. A class with another head (a masked
// language model's, for instance) counts when a sentence-transformers folder says what the base
// model's rows become.
absl::StatusOr<EncoderClass> FindEncoderClass(const ConfigReader& config);

// The rest of the configuration; everything but stored_dtype's key.
//
// Embeddings are pooled as the sentence-transformers files say. Where there are none, they are the
// mean of the rows and are not normalized, which is what sentence-transformers does then.
absl::StatusOr<ModelSpec> ParseEncoder(const ConfigReader& config, const EncoderClass& encoder);

}  // namespace penstock
