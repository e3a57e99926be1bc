// `penstock generate`: streams an answer from a server to stdout.

#include <google/protobuf/util/json_util.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/command.h"
#include "cli/setting_table.h"
#include "proto/penstock/v1/generation.grpc.pb.h"
#include "server/grpc_status.h"
#include "server/text/unicode.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

struct GenerateOptions {
  std::string address = "127.0.0.1:50051";
  std::string model;
  std::optional<std::string> prompt;
  std::vector<int> tokens;
  std::vector<std::string> stop;
  std::optional<uint32_t> max_tokens, min_tokens, top_k, n, logprobs;
  std::optional<float> temperature, top_p, min_p;
  std::optional<float> repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<uint64_t> seed;
  bool ignore_eos = false, include_stop = false, keep_special_tokens = false;
  std::optional<int> priority;
  std::optional<absl::Duration> queue_timeout;
  std::string cache_salt;
  bool no_prefix_cache = false;
  bool json = false, stats = false;
  std::optional<absl::Duration> timeout;
};

void DeclareSettings(GenerateOptions* options, SettingTable* table) {
  table->Add("address", "Of the server", &options->address);
  table->Add("model", "Name; empty: the only one", &options->model);
  table->Add("prompt", "Text; without it the positional argument or stdin", &options->prompt);
  table->Add("tokens", "Prompt as token ids, comma-separated, used as they are", &options->tokens);
  table->Add("max-tokens", "Most output tokens", &options->max_tokens);
  table->Add("min-tokens", "No stop token before so many", &options->min_tokens);
  table->Add("temperature", "0 is greedy", &options->temperature);
  table->Add("top-k", "Draw from the k most likely", &options->top_k);
  table->Add("top-p", "Draw from the most likely that make up p", &options->top_p);
  table->Add("min-p", "Drop what is less likely than this part of the best", &options->min_p);
  table->Add("seed", "Same seed, same answer", &options->seed);
  table->Add("repetition-penalty", "Over 1: repeat less", &options->repetition_penalty);
  table->Add("presence-penalty", "Once per token already used", &options->presence_penalty);
  table->Add("frequency-penalty", "Per use of a token", &options->frequency_penalty);
  table->Add("ignore-eos", "Do not stop at the model's end", &options->ignore_eos);
  table->Add("include-stop", "Keep the stop string in the text", &options->include_stop);
  table->Add("keep-special-tokens", "Show special tokens in the text",
             &options->keep_special_tokens);
  table->Add("n", "Samples", &options->n);
  table->Add("logprobs", "Most likely tokens told beside each", &options->logprobs);
  table->Add("priority", "-100 to 100; the smaller goes first", &options->priority);
  table->Add("queue-timeout", "Seconds in the queue; 0: no bound", &options->queue_timeout);
  table->Add("cache-salt", "Share cached prompts with calls of the same salt only",
             &options->cache_salt);
  table->Add("no-prefix-cache", "Share cached prompts with no other call",
             &options->no_prefix_cache);
  table->Add("json", "Print each message as a line of JSON", &options->json);
  table->Add("stats", "Print timings to stderr at the end", &options->stats);
  table->Add("timeout", "Seconds until the call is given up", &options->timeout);
}

v1::Sampling MakeSampling(const GenerateOptions& options) {
  v1::Sampling sampling;
  if (options.temperature) sampling.set_temperature(*options.temperature);
  if (options.top_k) sampling.set_top_k(*options.top_k);
  if (options.top_p) sampling.set_top_p(*options.top_p);
  if (options.min_p) sampling.set_min_p(*options.min_p);
  if (options.seed) sampling.set_seed(*options.seed);
  if (options.repetition_penalty) sampling.set_repetition_penalty(*options.repetition_penalty);
  if (options.presence_penalty) sampling.set_presence_penalty(*options.presence_penalty);
  if (options.frequency_penalty) sampling.set_frequency_penalty(*options.frequency_penalty);
  return sampling;
}

v1::Scheduling MakeScheduling(const GenerateOptions& options) {
  v1::Scheduling scheduling;
  if (options.priority) scheduling.set_priority(*options.priority);
  if (options.queue_timeout)
    scheduling.set_queue_timeout_seconds(absl::ToDoubleSeconds(*options.queue_timeout));
  if (options.no_prefix_cache) scheduling.set_prefix_cache(false);
  scheduling.set_cache_salt(options.cache_salt);
  return scheduling;
}

v1::GenerateRequest MakeRequest(const GenerateOptions& options) {
  v1::GenerateRequest request;
  request.set_model(options.model);
  if (options.tokens.empty()) {
    request.set_text(*options.prompt);
  } else {
    request.mutable_tokens()->mutable_ids()->Assign(options.tokens.begin(), options.tokens.end());
  }
  *request.mutable_sampling() = MakeSampling(options);
  *request.mutable_scheduling() = MakeScheduling(options);
  v1::Stopping* stopping = request.mutable_stopping();
  if (options.max_tokens) stopping->set_max_tokens(*options.max_tokens);
  if (options.min_tokens) stopping->set_min_tokens(*options.min_tokens);
  for (const std::string& stop : options.stop) stopping->add_stop(stop);
  stopping->set_ignore_eos(options.ignore_eos);
  stopping->set_include_stop_in_output(options.include_stop);
  if (options.n) request.set_n(*options.n);
  if (options.logprobs) request.mutable_output()->set_logprobs(*options.logprobs);
  request.mutable_output()->set_skip_special_tokens(!options.keep_special_tokens);
  return request;
}

// What the client saw, by its own clock.
class StreamStats {
 public:
  void Add(const v1::GenerateResponse& message) {
    if (message.token_ids_size() == 0) return;
    last_ = absl::Now();
    if (tokens_ == 0) {
      first_ = last_;
      tokens_in_first_ = message.token_ids_size();
    }
    tokens_ += message.token_ids_size();
  }
  void Print() const {
    const double decode = absl::ToDoubleSeconds(last_ - first_);
    std::fprintf(stderr, "%d tokens, TTFT %.1f ms, %.1f tokens/s\n", tokens_,
                 tokens_ > 0 ? absl::ToDoubleMilliseconds(first_ - begin_) : 0.0,
                 decode > 0 ? (tokens_ - tokens_in_first_) / decode : 0.0);
  }

 private:
  const absl::Time begin_ = absl::Now();
  absl::Time first_, last_;
  int tokens_ = 0, tokens_in_first_ = 0;
};

// One sample is shown as it comes; several would get mixed up, so each is shown when all are done.
class Printer {
 public:
  Printer(bool json, bool several) : json_(json), several_(several) {}

  absl::Status Print(const v1::GenerateResponse& message) {
    if (several_ && !json_) {
      texts_[message.index()] += message.text();
      return absl::OkStatus();
    }
    std::string text = message.text();
    if (json_) {
      text.clear();
      google::protobuf::util::JsonPrintOptions options;
      options.preserve_proto_field_names = true;
      const auto status = google::protobuf::util::MessageToJsonString(message, &text, options);
      if (!status.ok()) return absl::InternalError(status.ToString());
      text += "\n";
    }
    return Put(text);
  }

  absl::Status Finish() {
    for (const auto& [index, text] : texts_)
      RETURN_IF_ERROR(Put(absl::StrCat("--- sample ", index, " ---\n", text, "\n")));
    return json_ || several_ ? absl::OkStatus() : Put("\n");
  }

 private:
  static absl::Status Put(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
      return absl::OkStatus();
    return absl::UnavailableError("cannot write to stdout");
  }

  const bool json_, several_;
  std::map<uint32_t, std::string> texts_;
};

absl::StatusOr<int> Generate(const GenerateOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  const auto stub = v1::Generation::NewStub(
      grpc::CreateCustomChannel(options.address, grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  if (options.timeout)
    context.set_deadline(std::chrono::system_clock::now() +
                         absl::ToChronoMicroseconds(*options.timeout));
  const v1::GenerateRequest request = MakeRequest(options);
  StreamStats stats;
  Printer printer(options.json, options.n.value_or(1) > 1);
  const auto reader = stub->Generate(&context, request);
  v1::GenerateResponse message;
  absl::Status printed;
  while (printed.ok() && reader->Read(&message)) {
    stats.Add(message);
    printed = printer.Print(message);
  }
  if (!printed.ok()) context.TryCancel();
  const grpc::Status status = reader->Finish();
  RETURN_IF_ERROR(printed);
  RETURN_IF_ERROR(printer.Finish());
  if (!status.ok())
    return absl::Status(FromGrpc(status).code(),
                        absl::StrCat(absl::StatusCodeToString(FromGrpc(status).code()), ": ",
                                     status.error_message()));
  if (options.stats) stats.Print();
  return 0;
}

}  // namespace

Command MakeGenerateCommand(CLI::App& program) {
  struct State {
    GenerateOptions options;
    SettingTable table;
    std::optional<std::string> text;
  };
  auto state = std::make_shared<State>();
  CLI::App* app = program.add_subcommand("generate", "Stream an answer from a server");
  // Not a vector: of those, CLI11 takes "[INST] Hi. [/INST]" for a list in brackets.
  app->add_option("text", state->text, "The prompt, when not given with --prompt");
  app->add_option("--stop", state->options.stop, "Stop string; may be repeated")
      ->allow_extra_args(false);
  DeclareSettings(&state->options, &state->table);
  state->table.DeclareFlags(*app);

  const auto prepare = [state]() -> absl::Status {
    RETURN_IF_ERROR(state->table.ApplyFlags());
    GenerateOptions& options = state->options;
    const int prompts =
        (options.prompt ? 1 : 0) + (state->text ? 1 : 0) + (options.tokens.empty() ? 0 : 1);
    if (prompts > 1) return absl::InvalidArgumentError("the prompt is given twice");
    if (state->text) options.prompt = state->text;
    if (!options.prompt && options.tokens.empty())
      options.prompt = std::string(std::istreambuf_iterator<char>(std::cin), {});
    if (options.prompt && !IsValidUtf8(*options.prompt))
      return absl::InvalidArgumentError("the prompt is not UTF-8");
    return absl::OkStatus();
  };
  return {app, prepare, [state] { return Generate(state->options); }};
}

}  // namespace penstock
