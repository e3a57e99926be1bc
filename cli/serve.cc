// `penstock serve`: the composition root. What is declared first lives longest; read from the top
// it is the architecture from the files on disk to the open door.

#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "absl/time/clock.h"
#include "cli/command.h"
#include "cli/load_reporter.h"
#include "cli/serve_options.h"
#include "cli/stop_signals.h"
#include "shard/base/status_macros.h"
#include "spdlog/sinks/stdout_color_sinks.h"
#include "spdlog/spdlog.h"

namespace penstock {
namespace {

constexpr int kTextThreads = 2;

// Shows the executor's stages in the metrics for as long as both live.
class StageWatch {
 public:
  StageWatch(Metrics& metrics, const Executor& executor) : metrics_(metrics) {
    metrics_.WatchStages(&executor);
  }
  ~StageWatch() { metrics_.WatchStages(nullptr); }

 private:
  Metrics& metrics_;
};

void StartLog(const std::string& level) {
  auto log = spdlog::stderr_color_mt("penstock");
  log->set_pattern("%Y-%m-%dT%H:%M:%S.%e %L %v");
  log->set_level(spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(log));
  google::protobuf::SetLogHandler(nullptr);  // what a client gets wrong is told to the client
}

absl::StatusOr<std::unique_ptr<Executor>> LoadExecutor(const ServingPlan& plan,
                                                       const Tokenizer& tokenizer,
                                                       const ServeOptions& options) {
  ShardGroupOptions group;
  group.memory = plan.memory;
  // A head may be padded beyond the tokenizer's vocabulary; such ids are neither fed nor drawn.
  group.memory.info.vocab = std::min(plan.spec.vocab, tokenizer.vocab_size());
  group.step_timeout = absl::ToChronoMilliseconds(options.step_timeout);
  group.cpu = options.model.cpu;
  LoadProgress progress(plan.shards.ranks());
  const LoadReporter reporter(progress);
  return LoadShardGroup(*plan.checkpoint, plan.spec, plan.shards, group, &progress);
}

SchedulerOptions FitTo(const ExecutorInfo& info, SchedulerOptions options) {
  options.max_sequences = info.max_sequences;
  options.max_step_tokens = info.max_step_tokens;
  return options;
}

absl::Status Serve(const ServeOptions& options) {
  const absl::Time begin = absl::Now();
  BlockStopSignals();
  StartLog(options.log_level);

  ASSIGN_OR_RETURN(const ServingPlan plan, PlanServing(options.model));
  std::fputs(FormatPlan(plan).c_str(), stderr);
  ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, Tokenizer::Load(*plan.checkpoint));

  MetricsOptions metrics_options = options.metrics;
  metrics_options.model = plan.model_name;
  ASSIGN_OR_RETURN(const std::unique_ptr<Metrics> metrics, Metrics::Create(metrics_options));
  ASSIGN_OR_RETURN(const std::unique_ptr<InferenceServer> server,
                   InferenceServer::Start(options.server, *metrics));
  std::atomic<bool> loading{true};
  const StopSignals signals([&loading, &server] {
    if (loading.load())
      std::_Exit(1);  // nothing is at stake yet, and loading cannot be interrupted
    spdlog::info("stop requested");
    server->RequestStop();
  });

  ASSIGN_OR_RETURN(const std::unique_ptr<Executor> executor,
                   LoadExecutor(plan, *tokenizer, options));
  const StageWatch stage_watch(*metrics, *executor);
  TaskPool text_pool(kTextThreads);
  Scheduler scheduler(FitTo(executor->info(), options.scheduler), *executor, *metrics);
  const ServingContext context{
      {plan.model_name, *tokenizer, executor->info(), plan.spec.eos_tokens}, scheduler, text_pool};
  scheduler.Start();
  loading.store(false);
  RETURN_IF_ERROR(server->Open(context));
  std::fprintf(stderr, "serving %s on %s (ready in %.2f s)\n", plan.model_name.c_str(),
               server->address().c_str(), absl::ToDoubleSeconds(absl::Now() - begin));

  server->AwaitStop();
  spdlog::info("draining: running calls get {} s", absl::ToDoubleSeconds(options.server.grace));
  const bool all_finished = server->Drain();
  scheduler.Stop(absl::Now());
  spdlog::info(all_finished ? "drained" : "stopped with calls unfinished");
  return absl::OkStatus();
}

}  // namespace

Command MakeServeCommand(CLI::App& program) {
  CLI::App* app = program.add_subcommand("serve", "Serve a model over gRPC");
  auto settings = std::make_shared<ServeSettings>(*app);
  auto check_config = std::make_shared<bool>(false);
  app->add_flag("--check-config", *check_config,
                "Print the effective configuration and the memory plan, and exit");

  const auto run = [settings, check_config]() -> absl::StatusOr<int> {
    if (!*check_config) {
      RETURN_IF_ERROR(Serve(settings->options()));
      return 0;
    }
    std::fputs(settings->ToYaml().c_str(), stdout);
    ASSIGN_OR_RETURN(const ServingPlan plan, PlanServing(settings->options().model));
    std::fputs(FormatPlan(plan).c_str(), stderr);  // stdout is a configuration that can be used
    return 0;
  };
  return {app, [settings] { return settings->Read(); }, run};
}

}  // namespace penstock
