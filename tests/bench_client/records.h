#pragma once

#include <utility>
#include <vector>

#include "cli/bench/request_record.h"

namespace penstock {

// A successful request; times in milliseconds, `arrivals` pairs of time and tokens.
inline RequestRecord MakeRecord(int intended, int sent,
                                const std::vector<std::pair<int, int>>& arrivals, int end) {
  RequestRecord record;
  record.intended = absl::Milliseconds(intended);
  record.sent = absl::Milliseconds(sent);
  record.end = absl::Milliseconds(end);
  for (const auto& [at, tokens] : arrivals)
    record.arrivals.push_back({absl::Milliseconds(at), tokens});
  record.code = absl::StatusCode::kOk;
  record.prompt_tokens = 10;
  return record;
}

// Two that succeeded, two that failed with UNAVAILABLE, and one that was cut off.
inline std::vector<RequestRecord> SampleRecords() {
  std::vector<RequestRecord> records = {
      MakeRecord(100, 130, {{200, 1}, {260, 3}, {300, 1}}, 310),
      MakeRecord(150, 150, {{400, 1}, {500, 1}}, 520),
      MakeRecord(200, 200, {{300, 1}}, 600),
      MakeRecord(300, 300, {}, 1100),
      MakeRecord(900, 900, {{1000, 1}}, 5000),
  };
  for (size_t i = 0; i < records.size(); ++i) records[i].index = static_cast<int64_t>(i);
  records[0].queue = absl::Milliseconds(5);
  for (size_t i : {size_t{2}, size_t{3}}) {
    records[i].code = absl::StatusCode::kUnavailable;
    records[i].message = "gone, \"really\" <&>";
  }
  records[4].code = absl::StatusCode::kCancelled;
  records[4].cut_off = true;
  return records;
}

}  // namespace penstock
