// `penstock bench`: puts a server under load and tells what its clients saw; or, without a server,
// where a step's time goes.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "cli/bench/bench_run.h"
#include "cli/bench/profile_run.h"
#include "cli/bench/progress_line.h"
#include "cli/bench/report.h"
#include "cli/command.h"
#include "cli/setting_table.h"
#include "cli/stop_signals.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

constexpr int32_t kMost = 1 << 24;

constexpr char kRules[] =
    "How it counts: a closed loop (--concurrency) sends a client's next request when its last has "
    "ended; an open loop (--rate, --trace) sends when the schedule says so, whatever the server "
    "does. Latency starts when the call is begun (closed) or was to begin (open). TTFT ends with "
    "the first message that has tokens, E2E with the call's status; ITL is each time between "
    "neighbouring messages with tokens; TPOT is the time from the first such message to the last "
    "per token behind the first message. Latencies, tokens and throughput are of requests that "
    "succeeded; the time is from the first start to the last end. Percentiles are nearest-rank. "
    "Exit code: 1 when no request succeeded. docs/bench.md has the details.";

struct BenchCommandOptions {
  BenchOptions bench;
  bool profile = false;
  ProfileOptions steps;  // of --profile
  std::string json, csv, html;
  bool quiet = false;
};

void DeclareTarget(BenchOptions* options, SettingTable* table) {
  Target::Options* target = &options->target;
  table->AddChoice("protocol", "Of the server", {"penstock", "kserve"}, &options->protocol);
  table->AddChoice("kind", "What is asked for", {"generate", "embed"}, &options->kind);
  table->Add("address", "Of the server", &target->address);
  table->Add("model", "Name; empty: the only one", &target->model);
  table->AddBounded("connections", "That calls take in turns", 1, 1024, &target->connections);
  table->Add("timeout", "Seconds until a call is given up", &target->timeout);
  table->Add("temperature", "0 is greedy", &target->temperature);
  table->Add("priority", "Of all requests; smaller goes first", &target->priority);
  table->Add("ignore-eos", "Generate exactly --output-tokens", &target->ignore_eos);
  table->Add("unary", "KServe: ModelInfer instead of ModelStreamInfer", &target->unary);
  table->Add("token-counts",
             "KServe: ask for return_num_output_tokens; =false: a message is a token",
             &target->count_tokens);
}

void DeclareLoad(BenchOptions* options, SettingTable* table) {
  table->Add("concurrency", "Closed loop: clients, 8 without another load", &options->concurrency);
  table->Add("rate", "Open loop: Poisson arrivals per second", &options->rate);
  table->Add("trace", "Open loop: CSV of arrival seconds, prompt tokens, output tokens",
             &options->trace);
  table->Add("requests", "How many; unset: 100, or all of a trace, or what --duration allows",
             &options->requests);
  table->Add("duration", "Seconds after which no request is started", &options->duration);
  table->AddBounded("warm-up", "Requests before the measurement, not counted", 0, kMost,
                    &options->warm_up);
  table->Add("seed", "Same seed, same arrivals, lengths and prompts", &options->seed);
  table->Add("prompt-tokens", "N, uniform:LEAST-MOST or exponential:MEAN", &options->prompt_tokens);
  table->Add("output-tokens", "Likewise", &options->output_tokens);
  table->Add("input-tokens", "Likewise, of each input to embed", &options->input_tokens);
  table->AddBounded("batch", "Inputs of a request to embed", 1, 4096, &options->batch);
  table->Add("text", "Prompts of words, about a token each, instead of random token ids",
             &options->text);
  table->AddBounded("vocab", "Random token ids are below", 1, kMost, &options->vocab);
  table->AddBounded("shared-prefix", "First tokens that all prompts have in common", 0, kMost,
                    &options->shared_prefix);
}

void DeclareReports(BenchCommandOptions* options, SettingTable* table) {
  table->Add("slo", "Objectives for the goodput, as in ttft=200ms,itl=50ms,tpot=30ms,e2e=2s",
             &options->bench.slo);
  table->Add("metrics", "URL of the server's metrics, read each second for the HTML report",
             &options->bench.metrics);
  table->Add("json", "File for the report as JSON", &options->json);
  table->Add("csv", "File for a row per request", &options->csv);
  table->Add("html", "File for the report with plots", &options->html);
  table->Add("quiet", "Do not show progress", &options->quiet);
}

void DeclareProfile(BenchCommandOptions* options, SettingTable* table) {
  ProfileOptions* steps = &options->steps;
  table->Add("profile",
             "No server: where a step's time goes, of the checkpoint --model in this process",
             &options->profile);
  table->Add("threads", "Compute threads; 0: all", &steps->threads);
  table->AddChoice("dtype", "Of weights and KV cache", {"auto", "f32", "f16", "bf16"},
                   &steps->dtype);
  table->AddChoice("compute", "bf16: the bf16 dot product", {"auto", "fp32", "bf16"},
                   &steps->compute);
  table->Add("sequences", "Decode steps of so many sequences each", &steps->sequences);
  table->Add("context", "Tokens of each sequence", &steps->context);
  table->Add("prompt", "Tokens of a prompt's step", &steps->prompt);
}

constexpr const char* kProfileSettings[] = {"profile",   "model",   "threads", "dtype", "compute",
                                            "sequences", "context", "prompt",  "json"};

// Settings of a load mean nothing to a profile, and the other way round.
absl::Status CheckMode(bool profile, const SettingTable& table) {
  std::vector<SettingUse> uses;
  for (const auto& [name, value] : table.Values()) {
    const bool of_profile = std::find(std::begin(kProfileSettings), std::end(kProfileSettings),
                                      name) != std::end(kProfileSettings);
    const bool of_both = name == "model" || name == "json" || name == "profile";
    if (profile) uses.push_back({name, of_profile, "a load (without --profile)"});
    if (!profile && !of_both) uses.push_back({name, !of_profile, "--profile"});
  }
  return table.CheckUses(uses);
}

absl::StatusOr<int> Profile(const BenchCommandOptions& options) {
  ASSIGN_OR_RETURN(const ProfileReport report, ProfileSteps(options.steps));
  std::fputs(FormatProfileText(report).c_str(), stdout);
  if (!options.json.empty()) RETURN_IF_ERROR(WriteReport(options.json, FormatProfileJson(report)));
  return 0;
}

// Without it, a load could be over before it is known that nothing of it can be kept.
absl::Status CheckReports(const BenchCommandOptions& options) {
  for (const std::string& path : {options.json, options.csv, options.html})
    if (!path.empty()) RETURN_IF_ERROR(CheckReport(path));
  return absl::OkStatus();
}

absl::Status CheckUses(const BenchOptions& options, const SettingTable& table) {
  const bool embed = options.kind == "embed", kserve = options.protocol == "kserve";
  const bool drawn = options.trace.empty();
  return table.CheckUses({
      {"input-tokens", embed, "--kind embed"},
      {"input-tokens", drawn, "--concurrency or --rate (a trace has its lengths)"},
      {"batch", embed, "--kind embed"},
      {"prompt-tokens", !embed, "--kind generate"},
      {"prompt-tokens", drawn, "--concurrency or --rate (a trace has its lengths)"},
      {"output-tokens", !embed, "--kind generate"},
      {"output-tokens", drawn, "--concurrency or --rate (a trace has its lengths)"},
      {"temperature", !embed, "--kind generate"},
      {"ignore-eos", !embed, "--kind generate"},
      {"unary", kserve && !embed, "--protocol kserve and --kind generate"},
      {"token-counts", kserve && !embed, "--protocol kserve and --kind generate"},
      {"vocab", !kserve && !options.text,
       "prompts of token ids (not --text, not --protocol kserve)"},
  });
}

absl::Status WriteReports(const BenchCommandOptions& options, const BenchReport& report) {
  if (!options.json.empty()) RETURN_IF_ERROR(WriteReport(options.json, FormatJson(report)));
  if (!options.csv.empty()) RETURN_IF_ERROR(WriteReport(options.csv, FormatCsv(report)));
  if (!options.html.empty()) RETURN_IF_ERROR(WriteReport(options.html, FormatHtml(report)));
  return absl::OkStatus();
}

absl::StatusOr<int> Bench(const BenchCommandOptions& options, const SettingTable& table) {
  if (options.profile) return Profile(options);
  BlockStopSignals();
  ProgressLine line(stderr, isatty(STDERR_FILENO) != 0);
  const auto show = [&](const LoadProgress& progress) {
    if (!options.quiet) line.Show(progress);
  };
  BenchRun run(options.bench, show, line.period());
  const StopSignals signals([&run] { run.Stop(); });
  ASSIGN_OR_RETURN(BenchReport report, run.Run());
  line.Clear();
  report.settings = table.Values();
  std::fputs(FormatText(report).c_str(), stdout);
  RETURN_IF_ERROR(WriteReports(options, report));
  return report.summary.succeeded > 0 ? 0 : 1;
}

}  // namespace

Command MakeBenchCommand(CLI::App& program) {
  struct State {
    BenchCommandOptions options;
    SettingTable table;
  };
  auto state = std::make_shared<State>();
  CLI::App* app = program.add_subcommand("bench", "Measure a server under load");
  DeclareTarget(&state->options.bench, &state->table);
  DeclareLoad(&state->options.bench, &state->table);
  DeclareReports(&state->options, &state->table);
  DeclareProfile(&state->options, &state->table);
  state->table.DeclareFlags(*app);
  app->footer(kRules);
  const auto prepare = [state]() -> absl::Status {
    RETURN_IF_ERROR(state->table.ApplyFlags());
    RETURN_IF_ERROR(CheckMode(state->options.profile, state->table));
    if (state->options.profile) {
      state->options.steps.model = state->options.bench.target.model;
      RETURN_IF_ERROR(CheckProfile(state->options.steps));
      return CheckReports(state->options);
    }
    RETURN_IF_ERROR(CheckUses(state->options.bench, state->table));
    RETURN_IF_ERROR(state->options.bench.Complete());
    return CheckReports(state->options);
  };
  return {app, prepare, [state] { return Bench(state->options, state->table); }};
}

}  // namespace penstock
