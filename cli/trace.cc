// `penstock trace`: records what a running server does, as a timeline for Perfetto.

#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "cli/setting_table.h"
#include "cli/trace_writer.h"
#include "proto/penstock/v1/admin.grpc.pb.h"
#include "server/grpc_status.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

// Beyond the seconds that are recorded: for connecting, and for steps in flight at the end.
constexpr absl::Duration kPatience = absl::Seconds(30);

struct TraceSettings {
  std::string address = "127.0.0.1:50051";
  absl::Duration seconds = absl::Seconds(5);
  std::string out = "trace.json";
};

absl::Status Stream(const TraceSettings& settings, TraceWriter* writer) {
  const auto stub =
      v1::Admin::NewStub(grpc::CreateChannel(settings.address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       absl::ToChronoMicroseconds(settings.seconds + kPatience));
  v1::TraceRequest request;
  request.set_seconds(absl::ToDoubleSeconds(settings.seconds));
  const auto reader = stub->Trace(&context, request);
  v1::TraceChunk chunk;
  while (reader->Read(&chunk)) writer->Add(chunk);
  return FromGrpc(reader->Finish());
}

// What the recording holds, for people.
void PrintSummary(const TraceWriter& writer, const std::string& out) {
  const double wall = static_cast<double>(writer.window()) / 1e9;
  int64_t steps = 0;
  for (const TraceWriter::Replica& replica : writer.replicas()) steps += replica.totals.steps();
  std::fprintf(stderr, "%s: %lld steps in %.2f s; open it in ui.perfetto.dev or chrome://tracing\n",
               out.c_str(), static_cast<long long>(steps), wall);
  for (size_t i = 0; i < writer.replicas().size(); ++i) {
    size_t stage = 0;
    for (const StageTotals& totals : writer.replicas()[i].totals.Sum(writer.window())) {
      std::fprintf(stderr, "replica %zu stage %zu: busy %.2f s, bubble %.2f s, idle %.2f s\n", i,
                   stage, totals.busy, totals.bubble, totals.idle);
      ++stage;
    }
  }
  if (writer.lost_steps() > 0)
    std::fprintf(stderr, "%lld steps are missing: they came faster than they could be sent here\n",
                 static_cast<long long>(writer.lost_steps()));
}

absl::StatusOr<int> Trace(const TraceSettings& settings) {
  std::ofstream file;
  const bool to_stdout = settings.out == "-";
  if (!to_stdout) file.open(settings.out);
  std::ostream& out = to_stdout ? std::cout : file;
  if (!out) return absl::UnavailableError(absl::StrCat(settings.out, ": cannot be written"));
  TraceWriter writer(out);
  const absl::Status streamed = Stream(settings, &writer);
  writer.Finish();  // what came before an error can be looked at all the same
  out.flush();
  if (!out) return absl::UnavailableError(absl::StrCat(settings.out, ": cannot be written"));
  PrintSummary(writer, to_stdout ? "stdout" : settings.out);
  if (streamed.ok()) return 0;
  return absl::Status(streamed.code(), absl::StrCat(absl::StatusCodeToString(streamed.code()), ": ",
                                                    streamed.message()));
}

}  // namespace

Command MakeTraceCommand(CLI::App& program) {
  struct State {
    TraceSettings settings;
    SettingTable table;
  };
  auto state = std::make_shared<State>();
  CLI::App* app =
      program.add_subcommand("trace", "Record every step of a running server as a timeline");
  state->table.Add("address", "Of the server", &state->settings.address);
  state->table.Add("seconds", "To record, 0.1 to 300", &state->settings.seconds);
  state->table.Add("out", "Chrome trace JSON to write; -: stdout", &state->settings.out);
  state->table.DeclareFlags(*app);
  return {app, [state] { return state->table.ApplyFlags(); },
          [state] { return Trace(state->settings); }};
}

}  // namespace penstock
