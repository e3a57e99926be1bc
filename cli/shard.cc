// `penstock shard`: runs ranks for a leader (`penstock serve --workers ...`), here or elsewhere.

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "cli/setting_table.h"
#include "cli/stop_signals.h"
#include "shard/base/status_macros.h"
#include "shard/remote/credentials.h"
#include "shard/remote/worker_server.h"

namespace penstock {
namespace {

struct ShardOptions {
  std::string listen = "127.0.0.1:50061";
  WorkerOptions worker;
  ShardSecurity security;
  bool insecure = false;
  int32_t leader = 0;
};

// A process that the leader has started ends with it, however that ends.
absl::Status EndWithLeader(pid_t leader) {
  if (leader == 0) return absl::OkStatus();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == leader) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the leader, process ", leader, ", is gone"));
}

absl::StatusOr<int> RunShard(const ShardOptions& options) {
  BlockStopSignals();
  RETURN_IF_ERROR(EndWithLeader(options.leader));
  RETURN_IF_ERROR(CheckExposure(options.listen, options.security, options.insecure));
  ASSIGN_OR_RETURN(ShardCredentials credentials, ShardCredentials::Read(options.security));
  // A session may be deep in the loading of a model, which cannot be interrupted; nothing here
  // needs an end of its own, and the leader notices at once.
  const StopSignals signals([] { std::_Exit(0); });
  ASSIGN_OR_RETURN(const std::unique_ptr<WorkerServer> server,
                   WorkerServer::Start(options.listen, options.worker, std::move(credentials)));
  if (options.leader == 0)
    std::fprintf(stderr, "shard worker on %s, waiting for its leader\n", server->address().c_str());
  server->Wait();
  return 0;
}

}  // namespace

Command MakeShardCommand(CLI::App& program) {
  struct State {
    ShardOptions options;
    SettingTable table;
  };
  auto state = std::make_shared<State>();
  ShardOptions* options = &state->options;
  options->worker.build = PENSTOCK_VERSION;
  CLI::App* app = program.add_subcommand("shard", "Run ranks of a model for a `penstock serve`");
  SettingTable* table = &state->table;
  table->Add("listen", "Address for the leader; port 0 picks a free one", &options->listen);
  table->Add("data-address",
             "Address of this host for activations from other hosts; they are not encrypted",
             &options->worker.data_address);
  table->Add("model", "Where the model is on this host; empty: where the leader has it",
             &options->worker.model_path);
  table->Add("shard-token-file", "Token that leader and shards share",
             &options->security.token_file);
  table->Add("shard-tls-ca", "PEM of who signs the leader's certificate",
             &options->security.tls_ca);
  table->Add("shard-tls-cert", "PEM of this side's certificate", &options->security.tls_cert);
  table->Add("shard-tls-key", "PEM of its key", &options->security.tls_key);
  table->Add("insecure", "Listen beyond this host without a token or TLS", &options->insecure);
  table->AddBounded("leader", "Process to end with; for workers that a leader starts", 0,
                    std::numeric_limits<int32_t>::max(), &options->leader);
  table->DeclareFlags(*app);
  return {app, [state] { return state->table.ApplyFlags(); },
          [state] { return RunShard(state->options); }};
}

}  // namespace penstock
