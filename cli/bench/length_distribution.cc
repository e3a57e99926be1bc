#include "cli/bench/length_distribution.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace penstock {
namespace {

constexpr int32_t kMostTokens = 1 << 24;

bool ParseLength(absl::string_view text, int32_t* length) {
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit) &&
         absl::SimpleAtoi(text, length) && *length >= 1 && *length <= kMostTokens;
}

std::optional<LengthDistribution> Parse(absl::string_view text) {
  int32_t first = 0, second = 0;
  if (absl::ConsumePrefix(&text, "uniform:")) {
    const size_t dash = text.find('-');
    if (dash == absl::string_view::npos || !ParseLength(text.substr(0, dash), &first) ||
        !ParseLength(text.substr(dash + 1), &second) || first > second)
      return std::nullopt;
    return LengthDistribution::Uniform(first, second);
  }
  const bool exponential = absl::ConsumePrefix(&text, "exponential:");
  if (!ParseLength(text, &first)) return std::nullopt;
  return exponential ? LengthDistribution::Exponential(first) : LengthDistribution::Fixed(first);
}

}  // namespace

int32_t LengthDistribution::Draw(RandomStream& random) const {
  switch (shape_) {
    case Shape::kFixed: return first_;
    case Shape::kUniform:
      return first_ + static_cast<int32_t>(random.Below(int64_t{second_} - first_ + 1));
    case Shape::kExponential: break;
  }
  if (first_ == 1) return 1;
  const double failures = std::log(random.Uniform()) / std::log1p(-1.0 / first_);
  return 1 + static_cast<int32_t>(std::min<double>(failures, kMostTokens));
}

std::string LengthDistribution::ToString() const {
  switch (shape_) {
    case Shape::kFixed: return absl::StrCat(first_);
    case Shape::kUniform: return absl::StrCat("uniform:", first_, "-", second_);
    case Shape::kExponential: break;
  }
  return absl::StrCat("exponential:", first_);
}

absl::Status ParseSetting(absl::string_view text, LengthDistribution* value) {
  const std::optional<LengthDistribution> parsed = Parse(text);
  if (!parsed)
    return absl::InvalidArgumentError(absl::StrCat(
        "expected N, uniform:LEAST-MOST or exponential:MEAN with whole numbers in [1, ",
        kMostTokens, "], not \"", text, "\""));
  *value = *parsed;
  return absl::OkStatus();
}

std::string FormatSetting(const LengthDistribution& value) { return value.ToString(); }

}  // namespace penstock
