#include "cli/serve_options.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "shard/base/status_macros.h"
#include "shard/remote/worker_places.h"

namespace penstock {
namespace {

constexpr int32_t kMost = std::numeric_limits<int32_t>::max();

// "host:port" with a port that exists; 0 asks for a free one.
absl::Status CheckAddress(absl::string_view setting, absl::string_view address) {
  const size_t colon = address.rfind(':');
  int port = -1;
  if (colon != absl::string_view::npos && colon > 0 && colon + 1 < address.size() &&
      absl::SimpleAtoi(address.substr(colon + 1), &port) && port >= 0 && port <= 65535)
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      setting, ": expected host:port with a port in [0, 65535], not \"", address, "\""));
}

void DeclareModel(ModelOptions* model, SettingTable* table) {
  table->Add("model", "Hugging Face folder or GGUF file", &model->path);
  table->Add("served-model-name", "Name clients may ask for; empty: from the path",
             &model->served_name);
  table->AddBounded("tensor", "Ranks that share each layer", 1, 1024, &model->tensor);
  table->AddBounded("pipeline", "Stages that share the list of layers", 1, 1024, &model->pipeline);
  table->AddBounded("replicas", "Copies of the whole model, each tensor x pipeline ranks", 1, 64,
                    &model->replicas);
  table->Add("layers", "Layers of each stage, comma-separated; empty: balanced", &model->layers);
  table->AddChoice("dtype", "Of the weights; auto: as stored", {"auto", "f32", "f16", "bf16"},
                   &model->dtype);
  table->AddChoice("kv-dtype", "Of the KV cache; auto: as the weights",
                   {"auto", "f32", "f16", "bf16"}, &model->kv_dtype);
  table->AddBounded("max-context", "Tokens of one sequence, prompt and output; 0: the model's", 0,
                    kMost, &model->max_context);
  table->AddBounded("max-sequences", "Sequences in one step", 1, 1 << 16, &model->max_sequences);
  table->AddBounded("max-step-tokens", "Tokens in one step; 0: 512, of an encoder 4096 or more", 0,
                    1 << 20, &model->max_step_tokens);
  table->AddBounded("kv-tokens", "Tokens of a replica's KV cache; 0: as many bytes as the weights",
                    0, kMost, &model->kv_tokens);
  table->AddBounded("threads", "Compute threads of each rank; 0: CPUs divided by ranks", 0, 4096,
                    &model->cpu.threads);
  table->Add("isa", "Instruction set: auto, scalar, avx2, avx512, avx512bf16", &model->cpu.isa);
  table->AddChoice("compute", "Products: fp32 is bit-identical everywhere",
                   {"auto", "fp32", "bf16"}, &model->cpu.compute);
}

void DeclareWorkers(ServeOptions* options, SettingTable* table) {
  WorkerSettings* workers = &options->workers;
  table->Add("workers",
             "Where ranks run: threads, processes, auto (processes if there are several ranks), or "
             "HOST:PORT*RANKS,... of running `penstock shard`s",
             &workers->places);
  table->Add("spares", "HOST:PORT,... of `penstock shard`s that take the place of lost ones",
             &workers->spares);
  table->Add("shard-token-file", "Token that leader and shards share; remote workers only",
             &workers->security.token_file);
  table->Add("shard-tls-ca", "PEM of who signs the shards' certificates",
             &workers->security.tls_ca);
  table->Add("shard-tls-cert", "PEM of this side's certificate", &workers->security.tls_cert);
  table->Add("shard-tls-key", "PEM of its key", &workers->security.tls_key);
  table->Add("shard-silence", "Seconds without a sign of life before a shard is taken for lost",
             &workers->silence);
  table->Add("link-test", "Send patterns between all shards when they first join",
             &workers->link_test);
  table->Add("join-timeout", "Seconds that shards get to join one another", &workers->join_timeout);
  table->Add("start-timeout", "Seconds that remote workers get to be there at first",
             &workers->start_timeout);
  table->Add("recovery-timeout",
             "Seconds that lost shards get to come back before streams end with UNAVAILABLE",
             &options->scheduler.recovery_timeout);
}

void DeclareServing(ServeOptions* options, SettingTable* table) {
  table->AddBounded("prefill-chunk", "Most prompt tokens of one sequence in a step", 1, 1 << 20,
                    &options->scheduler.prefill_chunk);
  table->Add(
      "max-decode-delay",
      "Seconds that prompts may hold up sequences which decode; 0: only prefill-chunk bounds it",
      &options->scheduler.max_decode_delay);
  table->Add("prefix-cache", "Keep the prompts of ended requests in free KV blocks",
             &options->scheduler.prefix_cache);
  table->AddChoice("batching", "static and static-padded are there to be compared with",
                   {"continuous", "static", "static-padded"}, &options->batching);
  table->AddBounded("max-queue", "Waiting sequences; beyond it calls get RESOURCE_EXHAUSTED", 0,
                    1 << 24, &options->scheduler.max_queued);
  table->Add("queue-timeout", "Seconds a request may wait in the queue; 0: no bound",
             &options->server.calls.queue_timeout);
  table->Add("queue-timeout-override", "Whether a request may ask for a longer one",
             &options->server.calls.queue_timeout_override);
  table->Add("priority-ageing", "Seconds of waiting that are worth one level of priority; 0: none",
             &options->scheduler.ageing);
  table->Add("request-timeout", "Seconds a call may take; 0: only the client's deadline counts",
             &options->server.calls.request_timeout);
  table->Add("client-stall-timeout", "Seconds a client gets to take one message",
             &options->server.calls.client_stall);
  table->AddBounded("max-unread", "Tokens kept for a client that does not read; then it pauses", 1,
                    1 << 20, &options->server.calls.max_unread_tokens);
  table->Add("refuse-late",
             "Refuse at once what would, by what recent requests took, start too late or miss its "
             "deadline",
             &options->refuse_late);
  table->Add("listen", "Address of the gRPC server; port 0 picks a free one",
             &options->server.listen);
  table->AddBounded("max-receive-mib", "Largest request that gRPC accepts, in MiB", 1, 2047,
                    &options->server.max_receive_mib);
  table->Add("metrics", "Address of Prometheus metrics, or off", &options->metrics.listen);
  table->Add("metrics-aliases", "Running, waiting and KV usage under vLLM's names, too",
             &options->metrics.aliases);
  table->Add("step-timeout", "Seconds a step may take before its ranks are restarted",
             &options->step_timeout);
  table->Add("health-stall", "Seconds without a finished step before health is NOT_SERVING",
             &options->server.health_stall);
  table->Add("grace", "Seconds running calls get to finish on SIGTERM", &options->server.grace);
  table->AddChoice("log-level", "Of the server's log on stderr",
                   {"debug", "info", "warn", "error", "off"}, &options->log_level);
}

// Of a one-shot model only; others have no use for them.
void DeclareBatching(ServeOptions* options, SettingTable* table) {
  BatcherOptions* batcher = &options->batcher;
  table->AddBounded("max-batch", "Requests in one batch; 0: max-sequences", 0, 1 << 16,
                    &batcher->max_batch);
  table->AddBounded("max-batch-tokens", "Tokens of one batch; 0: max-step-tokens", 0, 1 << 20,
                    &batcher->max_batch_tokens);
  table->Add("batch-delay", "Seconds that the oldest request may be held back for company",
             &batcher->max_queue_delay);
  table->Add("preferred-batches",
             "Sizes, comma-separated; a batch that reaches one is sent at once",
             &batcher->preferred_sizes);
  table->Add("preserve-order", "Answer in the order of arrival; priorities then have no say",
             &batcher->preserve_order);
  table->AddChoice("queue-timeout-action",
                   "Past its queue timeout, a request is refused, or moved behind all that wait",
                   {"reject", "delay"}, &options->queue_timeout_action);
  table->AddBounded("max-inputs", "Inputs of one call", 1, 1 << 16, &options->limits.max_inputs);
}

}  // namespace

void DeclareSettings(ServeOptions* options, SettingTable* table) {
  DeclareModel(&options->model, table);
  DeclareWorkers(options, table);
  DeclareServing(options, table);
  DeclareBatching(options, table);
}

ServeSettings::ServeSettings(CLI::App& app) {
  app.add_option("--config", config_, "YAML file of the settings below; flags win");
  DeclareSettings(&options_, &table_);
  table_.DeclareFlags(app);
}

absl::Status ServeSettings::Read() {
  if (!config_.empty()) RETURN_IF_ERROR(table_.LoadYaml(config_));
  RETURN_IF_ERROR(table_.ApplyFlags());
  return options_.Complete();
}

absl::Status CheckModelSettings(const SettingTable& table, bool encoder) {
  std::vector<SettingUse> uses;
  for (const char* name : {"max-batch", "max-batch-tokens", "batch-delay", "preferred-batches",
                           "preserve-order", "queue-timeout-action", "max-inputs"})
    uses.push_back({name, encoder, "an encoder"});
  for (const char* name : {"replicas", "kv-dtype", "kv-tokens", "prefill-chunk", "max-decode-delay",
                           "prefix-cache", "batching", "max-unread"})
    uses.push_back({name, !encoder, "a model that generates"});
  return table.CheckUses(uses);
}

absl::StatusOr<ServingPlan> ServeSettings::Plan() const {
  ModelOptions model = options_.model;
  model.elsewhere = options_.workers.remote();
  ASSIGN_OR_RETURN(ServingPlan plan, PlanServing(model));
  RETURN_IF_ERROR(CheckModelSettings(table_, plan.spec.encoder.has_value()));
  if (options_.batcher.max_batch_tokens > plan.memory.info.max_step_tokens)
    return absl::InvalidArgumentError(
        absl::StrCat("--max-batch-tokens is ", options_.batcher.max_batch_tokens,
                     ", more than --max-step-tokens (", plan.memory.info.max_step_tokens, ")"));
  return plan;
}

absl::Status ServeOptions::CompleteBatching() {
  if (batcher.max_batch > model.max_sequences)
    return absl::InvalidArgumentError(absl::StrCat("--max-batch is ", batcher.max_batch,
                                                   ", more than --max-sequences (",
                                                   model.max_sequences, ")"));
  const int32_t most = batcher.max_batch > 0 ? batcher.max_batch : model.max_sequences;
  for (int32_t size : batcher.preferred_sizes)
    if (size < 1 || size > most)
      return absl::InvalidArgumentError(absl::StrCat("--preferred-batches has ", size,
                                                     "; a batch holds 1 to ", most, " requests"));
  server.calls.on_queue_timeout =
      queue_timeout_action == "delay" ? TimeoutAction::kDelay : TimeoutAction::kReject;
  batcher.max_queued = scheduler.max_queued;
  batcher.ageing = scheduler.ageing;
  batcher.refuse_late = refuse_late;
  batcher.recovery_timeout = scheduler.recovery_timeout;
  return absl::OkStatus();
}

absl::Status ServeOptions::CompleteWorkers() const {
  constexpr absl::Duration kLeast = absl::Seconds(1);  // workers tell twice as often that they live
  if (workers.silence < kLeast)
    return absl::InvalidArgumentError("--shard-silence: must be at least 1 second");
  for (const auto& [name, value] : {std::pair("--join-timeout", workers.join_timeout),
                                    {"--start-timeout", workers.start_timeout},
                                    {"--recovery-timeout", scheduler.recovery_timeout}})
    if (value < absl::Milliseconds(1))
      return absl::InvalidArgumentError(absl::StrCat(name, ": must be at least 0.001 seconds"));
  if (workers.remote()) {
    const int ranks = model.tensor * model.pipeline;
    RETURN_IF_ERROR(ParseWorkerPlaces(workers.places, ranks, model.replicas, 0).status());
    return ParseSpares(workers.spares).status();
  }
  if (!workers.spares.empty() || workers.security.any())
    return absl::InvalidArgumentError(
        "--spares, --shard-token-file and --shard-tls-... are for --workers HOST:PORT,...");
  return absl::OkStatus();
}

absl::Status ServeOptions::Complete() {
  if (model.path.empty()) return absl::InvalidArgumentError("--model is missing");
  RETURN_IF_ERROR(CheckAddress("--listen", server.listen));
  if (metrics.listen != "off") RETURN_IF_ERROR(CheckAddress("--metrics", metrics.listen));
  if (step_timeout < absl::Milliseconds(1))
    return absl::InvalidArgumentError("--step-timeout: must be at least 0.001 seconds");
  RETURN_IF_ERROR(CompleteWorkers());
  if (server.calls.client_stall < absl::Milliseconds(1))
    return absl::InvalidArgumentError("--client-stall-timeout: must be at least 0.001 seconds");
  RETURN_IF_ERROR(CompleteBatching());
  scheduler.batching = batching == "continuous" ? Batching::kContinuous
                       : batching == "static"   ? Batching::kStatic
                                                : Batching::kStaticPadded;
  scheduler.max_unread_tokens = server.calls.max_unread_tokens;
  // A step that is slow but within its own bound is no stall.
  server.health_stall = std::max(server.health_stall, step_timeout + absl::Seconds(10));
  return absl::OkStatus();
}

}  // namespace penstock
