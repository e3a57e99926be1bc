#include "cli/bench/slo.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace penstock {
namespace {

std::optional<absl::Duration>* Bound(Slo& slo, absl::string_view name) {
  if (name == "ttft") return &slo.ttft;
  if (name == "itl") return &slo.itl;
  if (name == "tpot") return &slo.tpot;
  if (name == "e2e") return &slo.e2e;
  return nullptr;
}

bool Within(const std::optional<absl::Duration>& time, const std::optional<absl::Duration>& bound) {
  return !bound || !time || *time <= *bound;
}

}  // namespace

bool Slo::Met(const RequestRecord& record) const {
  if (!record.ok() || (ttft && !record.ttft())) return false;
  return Within(record.ttft(), ttft) && Within(record.longest_gap(), itl) &&
         Within(record.tpot(), tpot) && Within(record.e2e(), e2e);
}

absl::Status ParseSetting(absl::string_view text, Slo* value) {
  Slo parsed;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> sides =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    std::optional<absl::Duration>* bound = Bound(parsed, sides.first);
    absl::Duration limit;
    if (bound == nullptr || !absl::ParseDuration(sides.second, &limit) ||
        limit <= absl::ZeroDuration() || limit == absl::InfiniteDuration())
      return absl::InvalidArgumentError(absl::StrCat(
          "expected ttft, itl, tpot or e2e with a time, as in ttft=200ms,itl=50ms,e2e=2s, not \"",
          part, "\""));
    if (*bound)
      return absl::InvalidArgumentError(absl::StrCat("\"", sides.first, "\" is given twice"));
    *bound = limit;
  }
  *value = parsed;
  return absl::OkStatus();
}

std::string FormatSetting(const Slo& value) {
  std::vector<std::string> parts;
  for (const auto& [name, bound] : {std::pair("ttft", value.ttft), std::pair("itl", value.itl),
                                    std::pair("tpot", value.tpot), std::pair("e2e", value.e2e)})
    if (bound) parts.push_back(absl::StrCat(name, "=", absl::FormatDuration(*bound)));
  return absl::StrJoin(parts, ",");
}

}  // namespace penstock
