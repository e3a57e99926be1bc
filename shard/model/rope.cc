#include "shard/model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "shard/base/status_macros.h"
#include "shard/model/weight_loader.h"

namespace penstock {
namespace {

constexpr double kTwoPi = 2.0 * std::numbers::pi;

// Long waves are stretched, short ones kept, those between blended (Llama 3.1).
double Llama3Frequency(const RopeSpec& rope, double frequency) {
  const double turns = rope.original_context * frequency / kTwoPi;  // within the original context
  const double low = rope.low_freq_factor, high = rope.high_freq_factor;
  if (turns > high) return frequency;
  if (turns < low) return frequency / rope.factor;
  const double keep = (turns - low) / (high - low);
  return (1.0 - keep) * frequency / rope.factor + keep * frequency;
}

// The (fractional) pair that turns `turns` times within the original context (YaRN, equation 17).
double PairThatTurns(const RopeSpec& rope, int32_t head_dim, double turns) {
  const double theta = rope.theta;
  return head_dim * std::log(rope.original_context / (turns * kTwoPi)) / (2.0 * std::log(theta));
}

void ScaleYarn(const RopeSpec& rope, int32_t head_dim, std::vector<double>& frequencies) {
  double low = PairThatTurns(rope, head_dim, rope.beta_fast);
  double high = PairThatTurns(rope, head_dim, rope.beta_slow);
  if (rope.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, head_dim - 1.0);
  if (high == low) high += 0.001;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double stretch = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] *= (1.0 - stretch) + stretch / rope.factor;
  }
}

double YarnAttentionFactor(const RopeSpec& rope) {
  if (rope.attention_factor > 0) return rope.attention_factor;
  const auto scale = [&](double mscale) {
    return rope.factor <= 1 ? 1.0 : 0.1 * mscale * std::log(double{rope.factor}) + 1.0;
  };
  if (rope.mscale > 0 && rope.mscale_all_dim > 0)
    return scale(rope.mscale) / scale(rope.mscale_all_dim);
  return scale(1.0);
}

// The base of NTK-aware scaling for a text of max_context tokens.
double DynamicTheta(const RopeSpec& rope, int32_t head_dim, int32_t max_context) {
  if (max_context <= rope.original_context || head_dim <= 2) return rope.theta;
  const double length = static_cast<double>(max_context) / rope.original_context;
  const double growth = rope.factor * length - (rope.factor - 1.0);
  return rope.theta * std::pow(growth, head_dim / (head_dim - 2.0));
}

}  // namespace

RopeFrequencies ComputeRopeFrequencies(const RopeSpec& rope, int32_t head_dim,
                                       int32_t max_context) {
  RopeFrequencies out;
  const bool dynamic = rope.scaling == RopeScaling::kDynamic;
  const double theta = dynamic ? DynamicTheta(rope, head_dim, max_context) : double{rope.theta};
  for (int32_t i = 0; i < head_dim; i += 2)
    out.inverse_frequencies.push_back(std::pow(theta, -static_cast<double>(i) / head_dim));
  std::vector<double>& frequencies = out.inverse_frequencies;
  switch (rope.scaling) {
    case RopeScaling::kNone:
    case RopeScaling::kDynamic: break;
    case RopeScaling::kLinear:
      for (double& frequency : frequencies) frequency /= rope.factor;
      break;
    case RopeScaling::kLlama3:
      for (double& frequency : frequencies) frequency = Llama3Frequency(rope, frequency);
      break;
    case RopeScaling::kYarn:
      ScaleYarn(rope, head_dim, frequencies);
      out.attention_factor = YarnAttentionFactor(rope);
      break;
    case RopeScaling::kFactors:
      for (size_t i = 0; i < frequencies.size(); ++i) frequencies[i] /= rope.factors[i];
      break;
  }
  return out;
}

absl::StatusOr<RopeTables> RopeTables::Make(const RopeSpec& rope, int32_t head_dim,
                                            int32_t max_context, Backend& backend) {
  const RopeFrequencies plan = ComputeRopeFrequencies(rope, head_dim, max_context);
  std::vector<float> cos, sin;
  cos.reserve(plan.inverse_frequencies.size() * static_cast<size_t>(max_context));
  sin.reserve(cos.capacity());
  for (int32_t position = 0; position < max_context; ++position) {
    for (const double frequency : plan.inverse_frequencies) {
      cos.push_back(static_cast<float>(std::cos(position * frequency) * plan.attention_factor));
      sin.push_back(static_cast<float>(std::sin(position * frequency) * plan.attention_factor));
    }
  }
  RopeTables tables;
  ASSIGN_OR_RETURN(tables.cos_, UploadFloats(cos, max_context, head_dim / 2, backend));
  ASSIGN_OR_RETURN(tables.sin_, UploadFloats(sin, max_context, head_dim / 2, backend));
  return tables;
}

int64_t RopeTables::Bytes(int32_t head_dim, int32_t max_context) {
  return 2 * int64_t{max_context} * (head_dim / 2) * int64_t{sizeof(float)};
}

}  // namespace penstock
