// `penstock trace`: records what a running server does, as a timeline for Perfetto.

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "cli/setting_table.h"
#include "cli/stop_signals.h"
#include "cli/trace_writer.h"
#include "proto/penstock/v1/admin.grpc.pb.h"
#include "server/grpc_status.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

// Beyond the seconds that are recorded: for connecting, and for steps in flight at the end.
constexpr absl::Duration kPatience = absl::Seconds(30);
// What the server records.
constexpr absl::Duration kShortest = absl::Milliseconds(100), kLongest = absl::Seconds(300);

struct TraceSettings {
  std::string address = "127.0.0.1:50051";
  absl::Duration seconds = absl::Seconds(5);
  std::string out = "trace.json";
};

// A recording on its way. The file is opened when the first of it has come, so that a call that
// fails leaves alone what was there before.
class Recording {
 public:
  explicit Recording(const TraceSettings& settings) : settings_(settings) {}

  // Until it is complete or Stop() ends it. An error of the file, or of the call.
  absl::Status Run() {
    const auto stub = v1::Admin::NewStub(
        grpc::CreateChannel(settings_.address, grpc::InsecureChannelCredentials()));
    context_.set_deadline(std::chrono::system_clock::now() +
                          absl::ToChronoMicroseconds(settings_.seconds + kPatience));
    v1::TraceRequest request;
    request.set_seconds(absl::ToDoubleSeconds(settings_.seconds));
    const auto reader = stub->Trace(&context_, request);
    v1::TraceChunk chunk;
    absl::Status written;
    while (written.ok() && reader->Read(&chunk)) written = Add(chunk);
    if (!written.ok()) context_.TryCancel();
    const absl::Status received = FromGrpc(reader->Finish());
    written.Update(Finish());
    RETURN_IF_ERROR(written);
    return stopped_.load() ? absl::OkStatus() : received;
  }
  void Stop() {  // any thread
    stopped_.store(true);
    context_.TryCancel();
  }

  const TraceWriter* writer() const { return writer_ ? &*writer_ : nullptr; }
  bool stopped() const { return stopped_.load(); }

 private:
  bool to_stdout() const { return settings_.out == "-"; }
  std::ostream& out() { return to_stdout() ? std::cout : file_; }

  absl::Status Add(const v1::TraceChunk& chunk) {
    if (!writer_) {
      if (!to_stdout()) file_.open(settings_.out);
      RETURN_IF_ERROR(CheckOut());
      writer_.emplace(out());
    }
    writer_->Add(chunk);
    return CheckOut();
  }
  // What came before an error or a stop can be looked at all the same.
  absl::Status Finish() {
    if (!writer_) return absl::OkStatus();
    writer_->Finish();
    out().flush();
    return CheckOut();
  }
  absl::Status CheckOut() {
    if (out()) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(settings_.out, ": cannot be written"));
  }

  const TraceSettings settings_;
  grpc::ClientContext context_;
  std::atomic<bool> stopped_{false};
  std::ofstream file_;
  std::optional<TraceWriter> writer_;
};

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
  BlockStopSignals();
  Recording recording(settings);
  const StopSignals signals([&recording] { recording.Stop(); });
  const absl::Status status = recording.Run();
  if (recording.writer() != nullptr)
    PrintSummary(*recording.writer(), settings.out == "-" ? "stdout" : settings.out);
  if (recording.stopped()) std::fprintf(stderr, "stopped before the end\n");
  if (status.ok()) return 0;
  return absl::Status(
      status.code(), absl::StrCat(absl::StatusCodeToString(status.code()), ": ", status.message()));
}

absl::Status CheckSeconds(absl::Duration seconds) {
  if (seconds >= kShortest && seconds <= kLongest) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--seconds: ", absl::ToDoubleSeconds(seconds), " is outside [0.1, 300]"));
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
  const auto prepare = [state]() -> absl::Status {
    RETURN_IF_ERROR(state->table.ApplyFlags());
    return CheckSeconds(state->settings.seconds);
  };
  return {app, prepare, [state] { return Trace(state->settings); }};
}

}  // namespace penstock
