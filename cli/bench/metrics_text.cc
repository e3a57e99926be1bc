#include "cli/bench/metrics_text.h"

#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace penstock {
namespace {

// Gauges of this server and of others, by what they are called in reports.
constexpr std::pair<const char*, const char*> kGauges[] = {
    {"running", "penstock_requests_running"},
    {"waiting", "penstock_requests_waiting"},
    {"running", "vllm:num_requests_running"},
    {"waiting", "vllm:num_requests_waiting"},
};

// name="value" pairs up to the closing brace; moves `text` behind it. False when it is malformed.
bool ParseLabels(absl::string_view* text, std::map<std::string, std::string>* labels) {
  while (!absl::ConsumePrefix(text, "}")) {
    const size_t equals = text->find("=\"");
    if (equals == absl::string_view::npos) return false;
    std::string& value =
        (*labels)[std::string(absl::StripAsciiWhitespace(text->substr(0, equals)))];
    text->remove_prefix(equals + 2);
    while (!text->empty() && text->front() != '"') {
      if (text->front() == '\\' && text->size() > 1) {
        text->remove_prefix(1);
        value += text->front() == 'n' ? '\n' : text->front();
      } else {
        value += text->front();
      }
      text->remove_prefix(1);
    }
    if (!absl::ConsumePrefix(text, "\"")) return false;
    absl::ConsumePrefix(text, ",");
  }
  return true;
}

std::optional<MetricValue> ParseLine(absl::string_view line) {
  MetricValue out;
  const size_t name_end = line.find_first_of("{ ");
  if (line.empty() || line.front() == '#' || name_end == absl::string_view::npos)
    return std::nullopt;
  out.name = std::string(line.substr(0, name_end));
  line.remove_prefix(name_end);
  if (absl::ConsumePrefix(&line, "{") && !ParseLabels(&line, &out.labels)) return std::nullopt;
  const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
  if (fields.empty() || !absl::SimpleAtod(fields[0], &out.value)) return std::nullopt;
  return out;
}

double Value(const MetricsSample& sample, const std::string& name) {
  const auto found = sample.values.find(name);
  return found == sample.values.end() ? 0 : found->second;
}

MetricsInterval Between(const MetricsSample& before, const MetricsSample& after) {
  MetricsInterval out;
  out.begin = before.at;
  out.end = after.at;
  for (const auto& [gauge, name] : kGauges)
    if (after.values.count(name) > 0) out.gauges[gauge] = after.values.at(name);
  // A step with prompts and decodes is counted in both phases of batch_size, but once here.
  const std::string steps_name = "penstock_step_seconds_count",
                    sum_name = "penstock_batch_size_sum";
  const double steps = Value(after, steps_name) - Value(before, steps_name);
  out.has_batch_size = after.values.count(steps_name) > 0 && after.values.count(sum_name) > 0;
  if (steps > 0) out.batch_size = (Value(after, sum_name) - Value(before, sum_name)) / steps;
  for (const auto& [stage, now] : after.stages) {
    const auto earlier = before.stages.find(stage);
    if (earlier == before.stages.end()) continue;
    const double busy = now.busy - earlier->second.busy;
    const double bubble = now.bubble - earlier->second.bubble;
    const double idle = now.idle - earlier->second.idle;
    const double all = busy + bubble + idle;
    // Below 0 when the server was started anew in between.
    if (all > 0 && busy >= 0 && bubble >= 0 && idle >= 0)
      out.stage_shares[stage] = {busy / all, bubble / all, idle / all};
  }
  return out;
}

}  // namespace

std::vector<MetricValue> ParseMetricsText(absl::string_view text) {
  std::vector<MetricValue> values;
  for (absl::string_view line : absl::StrSplit(text, '\n'))
    if (std::optional<MetricValue> value = ParseLine(absl::StripAsciiWhitespace(line)))
      values.push_back(*std::move(value));
  return values;
}

MetricsSample MakeMetricsSample(absl::Duration at, const std::vector<MetricValue>& values) {
  MetricsSample sample;
  sample.at = at;
  for (const MetricValue& value : values) {
    if (!std::isfinite(value.value)) continue;
    absl::string_view name = value.name;
    const auto label = value.labels.find("stage");
    if (label == value.labels.end() || !absl::ConsumePrefix(&name, "penstock_stage_")) {
      sample.values[value.name] += value.value;
      continue;
    }
    const auto replica = value.labels.find("replica");
    MetricsSample::Stage& stage =
        sample.stages[replica == value.labels.end() ? label->second
                                                    : replica->second + "/" + label->second];
    if (name == "busy_seconds_total") stage.busy += value.value;
    if (name == "bubble_seconds_total") stage.bubble += value.value;
    if (name == "idle_seconds_total") stage.idle += value.value;
  }
  return sample;
}

std::vector<MetricsInterval> BuildIntervals(const std::vector<MetricsSample>& samples) {
  std::vector<MetricsInterval> intervals;
  for (size_t i = 1; i < samples.size(); ++i)
    intervals.push_back(Between(samples[i - 1], samples[i]));
  return intervals;
}

}  // namespace penstock
