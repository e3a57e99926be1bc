#include "shard/model/rope_config.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

constexpr float kMaxTheta = 1e15f, kMaxFactor = 1e6f;
constexpr int32_t kMaxPositions = 1 << 30;

struct KindName {
  const char* name;
  RopeScaling kind;
};
constexpr KindName kKinds[] = {
    {"default", RopeScaling::kNone},    {"linear", RopeScaling::kLinear},
    {"llama3", RopeScaling::kLlama3},   {"yarn", RopeScaling::kYarn},
    {"dynamic", RopeScaling::kDynamic}, {"factors", RopeScaling::kFactors},
};

absl::StatusOr<RopeScaling> ParseKind(const ConfigReader& section) {
  const char* key = section.Has("rope_type") ? "rope_type" : "type";
  ASSIGN_OR_RETURN(const std::string name, section.String(key, "default"));
  std::string known;
  for (const KindName& row : kKinds) {
    if (name == row.name) return row.kind;
    absl::StrAppend(&known, known.empty() ? "" : ", ", row.name);
  }
  return section.Error(key, absl::StrCat("\"", name, "\" is not supported; known: ", known));
}

absl::Status RefusePartialRotary(const ConfigReader& reader) {
  ASSIGN_OR_RETURN(const float part, reader.Float("partial_rotary_factor", 1.0f, 0.0f, 1.0f));
  if (part != 1.0f) return reader.Error("partial_rotary_factor", "other than 1 is not supported");
  return absl::OkStatus();
}

absl::Status ParseLlama3(const ConfigReader& section, RopeSpec& rope) {
  ASSIGN_OR_RETURN(rope.low_freq_factor, section.Float("low_freq_factor", 1.0f, 1e-3f, kMaxFactor));
  ASSIGN_OR_RETURN(rope.high_freq_factor,
                   section.Float("high_freq_factor", 4.0f, 1e-3f, kMaxFactor));
  if (rope.high_freq_factor <= rope.low_freq_factor)
    return section.Error("high_freq_factor", "is not above low_freq_factor");
  return absl::OkStatus();
}

absl::Status ParseYarn(const ConfigReader& section, RopeSpec& rope) {
  ASSIGN_OR_RETURN(rope.beta_fast, section.Float("beta_fast", 32.0f, 1e-3f, kMaxFactor));
  ASSIGN_OR_RETURN(rope.beta_slow, section.Float("beta_slow", 1.0f, 1e-3f, kMaxFactor));
  if (rope.beta_fast < rope.beta_slow) return section.Error("beta_fast", "is below beta_slow");
  ASSIGN_OR_RETURN(rope.attention_factor, section.Float("attention_factor", 0.0f, 0.0f, 1e3f));
  ASSIGN_OR_RETURN(rope.mscale, section.Float("mscale", 0.0f, 0.0f, 1e3f));
  ASSIGN_OR_RETURN(rope.mscale_all_dim, section.Float("mscale_all_dim", 0.0f, 0.0f, 1e3f));
  ASSIGN_OR_RETURN(rope.truncate, section.Bool("truncate", true));
  return absl::OkStatus();
}

absl::Status ParseFactors(const ConfigReader& section, int32_t head_dim, RopeSpec& rope) {
  ASSIGN_OR_RETURN(rope.factors, section.Floats("factors", 1e-6f, 1e9f));
  if (std::ssize(rope.factors) == head_dim / 2) return absl::OkStatus();
  return section.Error("factors", absl::StrCat("has ", rope.factors.size(), " entries, expected ",
                                               head_dim / 2, " (head_dim / 2)"));
}

absl::Status ParseScaling(const ConfigReader& section, int32_t head_dim, int32_t max_positions,
                          RopeSpec& rope) {
  RETURN_IF_ERROR(RefusePartialRotary(section));
  ASSIGN_OR_RETURN(rope.scaling, ParseKind(section));
  if (rope.scaling == RopeScaling::kNone) return absl::OkStatus();
  if (rope.scaling == RopeScaling::kFactors) return ParseFactors(section, head_dim, rope);
  if (!section.Has("factor")) return section.Error("factor", "is missing");
  ASSIGN_OR_RETURN(rope.factor, section.Float("factor", 1.0f, 1.0f, kMaxFactor));
  ASSIGN_OR_RETURN(rope.original_context,
                   section.Int("original_max_position_embeddings", 0, 1, kMaxPositions));
  switch (rope.scaling) {
    case RopeScaling::kLlama3: {
      if (rope.original_context == 0) rope.original_context = max_positions;
      return ParseLlama3(section, rope);
    }
    case RopeScaling::kYarn: {
      if (rope.original_context == 0) rope.original_context = max_positions;
      return ParseYarn(section, rope);
    }
    // The length at which the base begins to grow; as the reference, the model's own.
    case RopeScaling::kDynamic: rope.original_context = max_positions; break;
    default: break;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RopeSpec> ParseRopeSpec(const ConfigReader& config, const Architecture& family,
                                       int32_t head_dim, int32_t max_positions) {
  RopeSpec rope;
  RETURN_IF_ERROR(RefusePartialRotary(config));
  ASSIGN_OR_RETURN(rope.theta, config.Float("rope_theta", family.rope_theta, 1.001f, kMaxTheta));
  const bool newer = config.Has("rope_parameters");
  const char* key = newer ? "rope_parameters" : "rope_scaling";
  if (!config.Has(key)) return rope;
  ASSIGN_OR_RETURN(const ConfigReader section, config.Section(key));
  for (const char* kind : {"full_attention", "sliding_attention"})
    if (section.Has(kind)) return section.Error(kind, "(by layer type) is not supported");
  ASSIGN_OR_RETURN(rope.theta, section.Float("rope_theta", rope.theta, 1.001f, kMaxTheta));
  RETURN_IF_ERROR(ParseScaling(section, head_dim, max_positions, rope));
  return rope;
}

int32_t ScaledContext(const RopeSpec& rope, int32_t max_positions) {
  const bool scales = rope.scaling == RopeScaling::kLinear || rope.scaling == RopeScaling::kYarn;
  if (!scales || rope.original_context == 0) return max_positions;
  const double scaled = double{rope.factor} * rope.original_context;
  return std::max(max_positions, static_cast<int32_t>(std::min<double>(scaled, kMaxPositions)));
}

}  // namespace penstock
