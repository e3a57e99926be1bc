#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "shard/model/architectures.h"
#include "shard/model/config_reader.h"
#include "shard/model/model_spec.h"

namespace penstock {

// Reads the rotary embedding from a model's configuration, in the older spelling (`rope_theta` and
// `rope_scaling`) or the newer (`rope_parameters`, which wins). InvalidArgument names the key;
// kinds that are not supported are refused by name.
absl::StatusOr<RopeSpec> ParseRopeSpec(const ConfigReader& config, const Architecture& family,
                                       int32_t head_dim, int32_t max_positions);

// The positions that a model with this embedding was made for, given `max_position_embeddings`:
// linear and yarn configurations often keep the original length there.
int32_t ScaledContext(const RopeSpec& rope, int32_t max_positions);

}  // namespace penstock
