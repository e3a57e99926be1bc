// `penstock serve`: the composition root. What is declared first lives longest; read from the top
// it is the architecture from the files on disk to the open door.

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "absl/time/clock.h"
#include "cli/command.h"
#include "cli/one_shot_model.h"
#include "cli/protocols.h"
#include "cli/replicas.h"
#include "cli/serve_options.h"
#include "cli/stop_signals.h"
#include "shard/base/status_macros.h"
#include "spdlog/sinks/stdout_color_sinks.h"
#include "spdlog/spdlog.h"

namespace penstock {
namespace {

constexpr int kTextThreads = 2;
constexpr int kUnfinished = 3;  // exit code: the grace period ended calls

void StartLog(const std::string& level) {
  auto log = spdlog::stderr_color_mt("penstock");
  log->set_pattern("%Y-%m-%dT%H:%M:%S.%e %L %v");
  log->set_level(spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(log));
}

absl::StatusOr<std::unique_ptr<LoadedModel>> LoadModel(const ServingPlan& plan,
                                                       const Tokenizer& tokenizer,
                                                       const ServeOptions& options,
                                                       Metrics& metrics) {
  return plan.spec.encoder ? OneShotModel::Load(plan, tokenizer, options, metrics)
                           : Replicas::Load(plan, tokenizer, options, metrics);
}

// The exit code.
absl::StatusOr<int> Serve(const ServeSettings& settings) {
  const ServeOptions& options = settings.options();
  const absl::Time begin = absl::Now();
  BlockStopSignals();
  StartLog(options.log_level);

  ASSIGN_OR_RETURN(const ServingPlan plan, settings.Plan());
  std::fputs(FormatPlan(plan).c_str(), stderr);
  ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, Tokenizer::Load(*plan.checkpoint));

  MetricsOptions metrics_options = options.metrics;
  metrics_options.model = plan.model_name;
  ASSIGN_OR_RETURN(const std::unique_ptr<Metrics> metrics, Metrics::Create(metrics_options));
  ServerOptions server_options = options.server;
  server_options.protocols = Protocols();
  server_options.model = {plan.model_name, std::string(ModelKind(plan.spec.encoder)),
                          FormatPlan(plan)};
  ASSIGN_OR_RETURN(const std::unique_ptr<InferenceServer> server,
                   InferenceServer::Start(server_options, *metrics));
  std::atomic<bool> loading{true};
  const StopSignals signals([&loading, &server] {
    if (loading.load())
      std::_Exit(1);  // nothing is at stake yet, and loading cannot be interrupted
    spdlog::info("stop requested");
    server->RequestStop();
  });

  TaskPool text_pool(kTextThreads);
  ASSIGN_OR_RETURN(const std::unique_ptr<LoadedModel> model,
                   LoadModel(plan, *tokenizer, options, *metrics));
  metrics->OnModelLoaded(absl::Now() - begin);
  const ServingContext context{
      {plan.model_name, *tokenizer, model->info(), plan.spec.eos_tokens, options.limits,
       plan.spec.encoder, std::string(Name(plan.memory.options.dtype)),
       options.scheduler.max_queued, plan.checkpoint->path()},
      model->generator(),
      text_pool,
      model->encoder(),
      plan.replicas};
  model->Start();
  loading.store(false);
  RETURN_IF_ERROR(server->Open(context));
  std::fprintf(stderr, "serving %s on %s (ready in %.2f s)\n", plan.model_name.c_str(),
               server->address().c_str(), absl::ToDoubleSeconds(absl::Now() - begin));

  server->AwaitStop();
  spdlog::info("draining: running calls get {} s", absl::ToDoubleSeconds(options.server.grace));
  const bool all_finished = server->Drain();
  model->Stop(absl::Now());
  // The process still lives for up to 2 s: the metrics' HTTP server looks that seldom whether to
  // end.
  spdlog::info(all_finished ? "drained" : "stopped with calls unfinished");
  return all_finished ? 0 : kUnfinished;
}

}  // namespace

Command MakeServeCommand(CLI::App& program) {
  CLI::App* app = program.add_subcommand("serve", "Serve a model over gRPC");
  auto settings = std::make_shared<ServeSettings>(*app);
  auto check_config = std::make_shared<bool>(false);
  app->add_flag("--check-config", *check_config,
                "Print the effective configuration and the memory plan, and exit");

  const auto run = [settings, check_config]() -> absl::StatusOr<int> {
    if (!*check_config) return Serve(*settings);
    std::fputs(settings->ToYaml().c_str(), stdout);
    ASSIGN_OR_RETURN(const ServingPlan plan, settings->Plan());
    std::fputs(FormatPlan(plan).c_str(), stderr);  // stdout is a configuration that can be used
    return 0;
  };
  return {app, [settings] { return settings->Read(); }, run};
}

}  // namespace penstock
