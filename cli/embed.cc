// `penstock embed`: asks a one-shot model and prints a line of JSON per result.

#include <google/protobuf/util/json_util.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "cli/setting_table.h"
#include "proto/penstock/v1/encoding.grpc.pb.h"
#include "server/grpc_status.h"
#include "server/text/unicode.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

struct EmbedOptions {
  std::string address = "127.0.0.1:50051";
  std::string model;
  std::vector<std::string> texts;
  std::optional<std::string> score;
  bool classify = false, truncate = false, raw = false;
  std::optional<uint32_t> top_n;
  std::optional<int32_t> priority;
  std::optional<absl::Duration> timeout;
};

void DeclareSettings(EmbedOptions* options, SettingTable* table) {
  table->Add("address", "Of the server", &options->address);
  table->Add("model", "Name; empty: the only one", &options->model);
  table->Add("classify", "Print the score of every label instead of an embedding",
             &options->classify);
  table->Add("score", "Rank the texts by their relevance to this query", &options->score);
  table->Add("top-n", "Print the best of a ranking only", &options->top_n);
  table->Add("raw", "Print logits instead of probabilities", &options->raw);
  table->Add("truncate", "Cut texts that are longer than the context", &options->truncate);
  table->Add("priority", "The smaller goes first", &options->priority);
  table->Add("timeout", "Seconds until the call is given up", &options->timeout);
}

// What all requests have.
template <typename Request>
Request MakeRequest(const EmbedOptions& options) {
  Request request;
  request.set_model(options.model);
  request.set_truncate(options.truncate);
  if (options.priority) request.mutable_scheduling()->set_priority(*options.priority);
  return request;
}

template <typename Messages>
absl::Status PrintLines(const Messages& messages) {
  google::protobuf::util::JsonPrintOptions json;
  json.preserve_proto_field_names = true;
  json.always_print_primitive_fields = true;
  for (const auto& message : messages) {
    std::string line;
    const auto status = google::protobuf::util::MessageToJsonString(message, &line, json);
    if (!status.ok()) return absl::InternalError(status.ToString());
    if (std::printf("%s\n", line.c_str()) < 0)
      return absl::UnavailableError("cannot write to stdout");
  }
  return absl::OkStatus();
}

absl::Status Told(const grpc::Status& status) {
  const absl::Status own = FromGrpc(status);
  return own.ok() ? own
                  : absl::Status(own.code(), absl::StrCat(absl::StatusCodeToString(own.code()),
                                                          ": ", own.message()));
}

absl::Status Embed(const EmbedOptions& options, v1::Encoding::Stub& stub,
                   grpc::ClientContext& context) {
  auto request = MakeRequest<v1::EmbedRequest>(options);
  for (const std::string& text : options.texts) request.add_inputs()->set_text(text);
  v1::EmbedResponse response;
  RETURN_IF_ERROR(Told(stub.Embed(&context, request, &response)));
  return PrintLines(response.embeddings());
}

absl::Status Classify(const EmbedOptions& options, v1::Encoding::Stub& stub,
                      grpc::ClientContext& context) {
  auto request = MakeRequest<v1::ClassifyRequest>(options);
  for (const std::string& text : options.texts) request.add_inputs()->set_text(text);
  request.set_raw_scores(options.raw);
  v1::ClassifyResponse response;
  RETURN_IF_ERROR(Told(stub.Classify(&context, request, &response)));
  return PrintLines(response.results());
}

absl::Status Score(const EmbedOptions& options, v1::Encoding::Stub& stub,
                   grpc::ClientContext& context) {
  auto request = MakeRequest<v1::ScoreRequest>(options);
  request.set_query(*options.score);
  for (const std::string& text : options.texts) request.add_documents(text);
  if (options.top_n) request.set_top_n(*options.top_n);
  request.set_raw_scores(options.raw);
  v1::ScoreResponse response;
  RETURN_IF_ERROR(Told(stub.Score(&context, request, &response)));
  return PrintLines(response.results());
}

absl::StatusOr<int> Ask(const EmbedOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  const auto stub = v1::Encoding::NewStub(
      grpc::CreateCustomChannel(options.address, grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  if (options.timeout)
    context.set_deadline(std::chrono::system_clock::now() +
                         absl::ToChronoMicroseconds(*options.timeout));
  if (options.score) {
    RETURN_IF_ERROR(Score(options, *stub, context));
  } else if (options.classify) {
    RETURN_IF_ERROR(Classify(options, *stub, context));
  } else {
    RETURN_IF_ERROR(Embed(options, *stub, context));
  }
  return 0;
}

// gRPC's strings are UTF-8.
absl::Status CheckUtf8(const EmbedOptions& options) {
  if (options.score && !IsValidUtf8(*options.score))
    return absl::InvalidArgumentError("--score is not UTF-8");
  for (size_t i = 0; i < options.texts.size(); ++i)
    if (!IsValidUtf8(options.texts[i]))
      return absl::InvalidArgumentError(absl::StrCat("text ", i + 1, " is not UTF-8"));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ReadTexts(std::vector<std::string> arguments) {
  for (const std::string& argument : arguments)
    if (absl::StartsWith(argument, "--"))
      return absl::InvalidArgumentError(
          absl::StrCat(argument,
                       " is no option, or stands behind a text (a text that begins with "
                       "-- can come from stdin)"));
  if (!arguments.empty()) return arguments;
  for (std::string line; std::getline(std::cin, line);) arguments.push_back(line);
  if (arguments.empty()) return absl::InvalidArgumentError("there is no text");
  return arguments;
}

}  // namespace

Command MakeEmbedCommand(CLI::App& program) {
  struct State {
    EmbedOptions options;
    SettingTable table;
  };
  auto state = std::make_shared<State>();
  CLI::App* app = program.add_subcommand("embed", "Embed, classify or rank texts on a server");
  // Not a positional option: CLI11 would take "[a] b [c]" for a list in brackets.
  app->prefix_command();
  app->footer(
      "The texts, or with --score the documents, follow the options; without any, each line of "
      "stdin is one.");
  DeclareSettings(&state->options, &state->table);
  state->table.DeclareFlags(*app);

  const auto prepare = [app, state]() -> absl::Status {
    EmbedOptions& options = state->options;
    RETURN_IF_ERROR(state->table.ApplyFlags());
    if (options.score && options.classify)
      return absl::InvalidArgumentError("--score and --classify exclude one another");
    RETURN_IF_ERROR(state->table.CheckUses(
        {{"top-n", options.score.has_value(), "--score"},
         {"raw", options.score || options.classify, "--score or --classify"}}));
    ASSIGN_OR_RETURN(options.texts, ReadTexts(app->remaining()));
    return CheckUtf8(options);
  };
  return {app, prepare, [state] { return Ask(state->options); }};
}

}  // namespace penstock
