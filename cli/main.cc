// The penstock program: serve a model, plan its placement, or talk to a server.

#include <google/protobuf/stubs/logging.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_replace.h"
#include "cli/command.h"

namespace penstock {
namespace {

constexpr int kUsageError = 2;

// One line, whatever the message holds.
int Fail(absl::string_view message, int code) {
  const std::string line = absl::StrReplaceAll(message, {{"\n", " "}});
  std::fprintf(stderr, "penstock: error: %s\n", line.c_str());
  return code;
}

int Run(const Command& command) {
  if (const absl::Status status = command.prepare(); !status.ok())
    return Fail(status.message(), kUsageError);
  const absl::StatusOr<int> code = command.run();
  return code.ok() ? *code : Fail(code.status().message(), 1);
}

int Main(int argc, char** argv) {
  CLI::App program(
      "Penstock: serves language models over gRPC, cut into tensor and pipeline shards.",
      "penstock");
  program.set_version_flag("--version", std::string("penstock ") + PENSTOCK_VERSION);
  program.require_subcommand(1);
  const std::vector<Command> commands = {MakeServeCommand(program),    MakeShardCommand(program),
                                         MakeGenerateCommand(program), MakeHealthCommand(program),
                                         MakePlanCommand(program),     MakeBenchCommand(program),
                                         MakeTraceCommand(program),    MakeEmbedCommand(program)};
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);  // --help, --version
    return Fail(error.what(), kUsageError);
  }
  for (const Command& command : commands)
    if (command.app->parsed()) return Run(command);
  return kUsageError;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader of stdout that goes away is an error, not the end
  // Text that is no UTF-8 is an error of ours or the other side's, told as such.
  google::protobuf::SetLogHandler(nullptr);
  return penstock::Main(argc, argv);
}
