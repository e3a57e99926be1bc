#include "cli/bench/trace_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "shard/base/decimal.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

constexpr int32_t kMostTokens = 1 << 24;

absl::Status ParseTokens(absl::string_view what, absl::string_view text, int32_t* tokens) {
  if (absl::SimpleAtoi(text, tokens) && *tokens >= 1 && *tokens <= kMostTokens)
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, ": expected a whole number in [1, ",
                                                 kMostTokens, "], not \"", text, "\""));
}

absl::StatusOr<TraceRow> ParseRow(absl::string_view line) {
  const std::vector<absl::string_view> fields = absl::StrSplit(line, ',');
  if (fields.size() != 3)
    return absl::InvalidArgumentError(absl::StrCat(
        "expected arrival seconds, prompt tokens, output tokens, not ", fields.size(), " fields"));
  TraceRow row;
  double seconds = 0;
  const absl::string_view arrival = absl::StripAsciiWhitespace(fields[0]);
  if (!ParseDecimal(arrival, &seconds) || !(seconds >= 0 && seconds <= 1e9))
    return absl::InvalidArgumentError(
        absl::StrCat("arrival: expected seconds in [0, 1e9], not \"", arrival, "\""));
  row.arrival = absl::Seconds(seconds);
  RETURN_IF_ERROR(
      ParseTokens("prompt tokens", absl::StripAsciiWhitespace(fields[1]), &row.prompt_tokens));
  RETURN_IF_ERROR(
      ParseTokens("output tokens", absl::StripAsciiWhitespace(fields[2]), &row.output_tokens));
  return row;
}

bool IsNumber(absl::string_view field) {
  double ignored = 0;
  return ParseDecimal(absl::StripAsciiWhitespace(field), &ignored);
}

// A row with a mistake is none.
bool IsHeading(absl::string_view line) {
  const std::vector<absl::string_view> fields = absl::StrSplit(line, ',');
  return std::none_of(fields.begin(), fields.end(), IsNumber);
}

}  // namespace

absl::StatusOr<std::vector<TraceRow>> ParseTrace(const std::string& path, absl::string_view text) {
  absl::ConsumePrefix(&text, "\xEF\xBB\xBF");  // a byte order mark
  std::vector<TraceRow> rows;
  int number = 0;
  bool first = true;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') continue;
    if (std::exchange(first, false) && IsHeading(line)) continue;
    absl::StatusOr<TraceRow> row = ParseRow(line);
    if (row.ok() && !rows.empty() && row->arrival < rows.back().arrival)
      row = absl::InvalidArgumentError("arrives before the line above");
    if (!row.ok())
      return absl::InvalidArgumentError(
          absl::StrCat(path, ":", number, ": ", row.status().message()));
    rows.push_back(*row);
  }
  if (rows.empty()) return absl::InvalidArgumentError(absl::StrCat(path, ": has no requests"));
  return rows;
}

absl::StatusOr<std::vector<TraceRow>> ReadTrace(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", error ? error.message() : "is not a regular file"));
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file.is_open() || file.bad())
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be read"));
  return ParseTrace(path, text);
}

}  // namespace penstock
