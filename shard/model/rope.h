#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/backend/backend.h"
#include "shard/model/model_spec.h"

namespace penstock {

// What a RopeSpec comes to: position p turns pair i by p * inverse_frequencies[i], and cos and sin
// are multiplied by attention_factor.
struct RopeFrequencies {
  std::vector<double> inverse_frequencies;  // [head_dim / 2]
  double attention_factor = 1.0;
};

// Dynamic scaling grows its base with the sequence in the reference implementation, so that a
// token's key depends on how long the text was when it was cached. That cannot be invariant to
// chunking or preemption; here the base is the one for `max_context` positions from the start. Up
// to the original length, as long as max_context is not above it, both agree.
RopeFrequencies ComputeRopeFrequencies(const RopeSpec& rope, int32_t head_dim, int32_t max_context);

// The cos and sin of positions [0, max_context), computed in double, on the backend. The windows of
// table() are valid as long as this object, moved or not.
class RopeTables {
 public:
  static absl::StatusOr<RopeTables> Make(const RopeSpec& rope, int32_t head_dim,
                                         int32_t max_context, Backend& backend);
  static int64_t Bytes(int32_t head_dim, int32_t max_context);

  RopeTable table() const { return {cos_.view, sin_.view}; }

 private:
  OwnedMatrix cos_, sin_;
};

}  // namespace penstock
