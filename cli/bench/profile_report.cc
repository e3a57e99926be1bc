#include "cli/bench/profile_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace penstock {
namespace {

using Json = nlohmann::ordered_json;

double Share(double part, double whole) { return whole > 0 ? part / whole : 0; }

double PeakOf(const ProfileReport& report, const OperationCost& operation) {
  const bool bf16 = report.bf16 && operation.kind == OperationKind::kProduct;
  return bf16 ? report.limits.bf16 : report.limits.fp32;
}

// What an operation would take if it had the limit of memory or of arithmetic, whichever is later.
const char* BoundOf(const ProfileReport& report, const ProfileReport::Section& section,
                    const OperationCost& operation) {
  const double memory = Share(operation.bytes, section.read_bandwidth);
  const double arithmetic = Share(operation.flops, PeakOf(report, operation));
  return memory >= arithmetic ? "memory" : "arithmetic";
}

std::string FormatOperation(const ProfileReport& report, const ProfileReport::Section& section,
                            const OperationCost& each) {
  const StepProfile& profile = section.profile;
  const double bytes = Share(each.bytes, each.seconds), flops = Share(each.flops, each.seconds);
  std::string row = absl::StrFormat("  %-24s %6.1f %9.1f us %6.1f %% %7.1f GB/s %4.0f %%",
                                    each.name, static_cast<double>(each.calls) / profile.steps,
                                    1e6 * each.seconds / profile.steps,
                                    100 * Share(each.seconds, profile.seconds), bytes / 1e9,
                                    100 * Share(bytes, section.read_bandwidth));
  if (each.flops > 0) {
    absl::StrAppendFormat(&row, " %7.1f GFLOP/s %4.0f %%", flops / 1e9,
                          100 * Share(flops, PeakOf(report, each)));
  } else {
    absl::StrAppendFormat(&row, "%23s", "");
  }
  return absl::StrCat(row, "  ", BoundOf(report, section, each), "\n");
}

std::string FormatShares(const StepProfile& profile) {
  const auto share = [&](double seconds) { return 100 * Share(seconds, profile.seconds); };
  return absl::StrFormat(
      "  products %.1f %%, attention %.1f %%, everything else (norm, rotary, SiLU, sampling) "
      "%.1f %%, outside operations %.1f %%\n",
      share(profile.Seconds(OperationKind::kProduct)),
      share(profile.Seconds(OperationKind::kAttention)),
      share(profile.Seconds(OperationKind::kOther)), share(profile.OutsideSeconds()));
}

std::string FormatSection(const ProfileReport& report, const ProfileReport::Section& section) {
  const StepProfile& profile = section.profile;
  std::string text = absl::StrFormat("\n%s: %.1f us a step (%d steps), memory reads %.1f GB/s\n",
                                     section.title, 1e6 * profile.seconds / profile.steps,
                                     profile.steps, section.read_bandwidth / 1e9);
  absl::StrAppendFormat(&text, "  %-24s %6s %12s %8s %12s %6s %15s %6s  %s\n", "operation", "calls",
                        "time", "share", "memory", "of it", "arithmetic", "of it", "bound by");
  std::vector<OperationCost> operations = profile.operations;
  std::stable_sort(operations.begin(), operations.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  for (const OperationCost& each : operations) text += FormatOperation(report, section, each);
  return text + FormatShares(profile);
}

Json ToJson(const ProfileReport& report, const ProfileReport::Section& section) {
  const StepProfile& profile = section.profile;
  Json operations = Json::array();
  for (const OperationCost& each : profile.operations)
    operations.push_back({{"name", each.name},
                          {"calls", static_cast<double>(each.calls) / profile.steps},
                          {"seconds", each.seconds / profile.steps},
                          {"bytes", each.bytes / profile.steps},
                          {"flops", each.flops / profile.steps},
                          {"bound", BoundOf(report, section, each)}});
  return {{"title", section.title},
          {"steps", profile.steps},
          {"seconds", profile.seconds / profile.steps},
          {"read_bandwidth", section.read_bandwidth},
          {"products", Share(profile.Seconds(OperationKind::kProduct), profile.seconds)},
          {"attention", Share(profile.Seconds(OperationKind::kAttention), profile.seconds)},
          {"other", Share(profile.Seconds(OperationKind::kOther), profile.seconds)},
          {"outside", Share(profile.OutsideSeconds(), profile.seconds)},
          {"operations", operations}};
}

}  // namespace

std::string FormatProfileText(const ProfileReport& report) {
  const MachineLimits& limits = report.limits;
  std::string text = absl::StrFormat(
      "%s on %d thread(s); the machine reads %.1f GB/s and computes %.0f GFLOP/s in fp32",
      report.model, limits.threads, limits.read_bandwidth / 1e9, limits.fp32 / 1e9);
  if (limits.bf16 > 0) absl::StrAppendFormat(&text, ", %.0f in bf16", limits.bf16 / 1e9);
  text += "\n";
  for (const ProfileReport::Section& section : report.sections)
    text += FormatSection(report, section);
  return text;
}

std::string FormatProfileJson(const ProfileReport& report) {
  Json sections = Json::array();
  for (const ProfileReport::Section& section : report.sections)
    sections.push_back(ToJson(report, section));
  const MachineLimits& limits = report.limits;
  return Json({{"model", report.model},
               {"threads", limits.threads},
               {"read_bandwidth", limits.read_bandwidth},
               {"fp32_flops", limits.fp32},
               {"bf16_flops", limits.bf16},
               {"steps", sections}})
             .dump(2) +
         "\n";
}

}  // namespace penstock
