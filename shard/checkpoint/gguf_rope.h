#pragma once

#include <vector>

#include "nlohmann/json.hpp"

namespace penstock {

// A config.json's rope_scaling for the divisors of the rotary frequencies that GGUF keeps in
// rope_freqs.weight, [head_dim / 2]. Llama 3.1's scaling ("llama3") when its rule with the numbers
// all its models use (low 1, high 4, an original context that is a power of two) gives these
// divisors; otherwise {"rope_type": "factors", "factors": divisors}.
nlohmann::json RopeScalingOfDivisors(const std::vector<float>& divisors, double theta);

}  // namespace penstock
