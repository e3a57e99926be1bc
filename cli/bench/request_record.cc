#include "cli/bench/request_record.h"

#include <algorithm>

namespace penstock {

int64_t RequestRecord::output_tokens() const {
  int64_t sum = 0;
  for (const TokenArrival& arrival : arrivals) sum += arrival.tokens;
  return sum;
}

std::optional<absl::Duration> RequestRecord::ttft() const {
  if (arrivals.empty()) return std::nullopt;
  return arrivals.front().at - intended;
}

std::optional<absl::Duration> RequestRecord::tpot() const {
  if (arrivals.empty()) return std::nullopt;
  const int64_t later = output_tokens() - arrivals.front().tokens;
  if (later <= 0) return std::nullopt;
  return (arrivals.back().at - arrivals.front().at) / later;
}

std::optional<absl::Duration> RequestRecord::longest_gap() const {
  if (arrivals.size() < 2) return std::nullopt;
  absl::Duration longest;
  for (size_t i = 1; i < arrivals.size(); ++i)
    longest = std::max(longest, arrivals[i].at - arrivals[i - 1].at);
  return longest;
}

}  // namespace penstock
