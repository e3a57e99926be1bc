// A group whose ranks are processes, against one whose ranks are threads; and what happens when
// some of them are killed or stopped.
#include "shard/remote/remote_group.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/shard/testing.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// Of the child that serves `rank`; 0 without one.
pid_t WorkerOf(int rank) {
  const std::string wanted = absl::StrCat("/rank-", rank, ".sock");
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
    std::ifstream file(entry.path() / "cmdline");
    const std::string line((std::istreambuf_iterator<char>(file)), {});
    const std::string leader = absl::StrCat("--leader", std::string(1, '\0'), getpid());
    if (absl::StrContains(line, wanted) && absl::StrContains(line, leader)) return pid;
  }
  return 0;
}

RemoteGroupOptions Options(const TestModel& model, milliseconds silence = milliseconds(10000)) {
  RemoteGroupOptions options;
  options.memory = model.memory;
  options.model_path = model.path;
  options.cpu = model.cpu;
  options.step_timeout = milliseconds(20000);
  options.worker.build = "";
  options.worker.program = PENSTOCK_PROGRAM;
  options.worker.silence = silence;
  return options;
}

class RemoteGroupTest : public ::testing::Test {
 protected:
  static TestGroupOptions Cut(int tensor, int pipeline) {
    TestGroupOptions cut;
    cut.tensor = tensor;
    cut.pipeline = pipeline;
    return cut;
  }
  std::unique_ptr<Executor> Load(const TestGroupOptions& cut,
                                 milliseconds silence = milliseconds(10000)) {
    const TestModel model(cut);
    RemoteGroupOptions options = Options(model, silence);
    options.worker.build = PENSTOCK_VERSION;
    auto executor = LoadRemoteGroup(*model.checkpoint, model.spec, model.plan, options, nullptr);
    EXPECT_TRUE(executor.ok()) << executor.status();
    return executor.ok() ? *std::move(executor) : nullptr;
  }
  // Restarts until that works, as the scheduler does.
  static absl::Status RestartEventually(Executor& executor) {
    absl::Status status = absl::UnknownError("not tried");
    for (int i = 0; i < 5 && !status.ok(); ++i) status = executor.Restart();
    return status;
  }

  const std::vector<int32_t> tokens_ = RandomTokens(40, 3);
  const std::vector<int32_t> blocks_ = {0, 1, 2, 3};
};

struct Degrees {
  int tensor, pipeline;
};
class RemoteDegreesTest : public RemoteGroupTest, public ::testing::WithParamInterface<Degrees> {};

TEST_P(RemoteDegreesTest, ProcessesComputeTheBitsOfThreads) {
  const TestGroupOptions cut = Cut(GetParam().tensor, GetParam().pipeline);
  const auto remote = Load(cut);
  ASSERT_NE(remote, nullptr);
  const auto local = LoadTestGroup(cut);
  EXPECT_EQ(LogitsOf(*remote, tokens_, 7, remote->info().max_in_flight, blocks_),
            LogitsOf(*local, tokens_, 7, local->info().max_in_flight, blocks_));
  const PipelineStats stats = remote->Stats();
  ASSERT_EQ(std::ssize(stats.stages), GetParam().pipeline);
  for (const StageStats& stage : stats.stages) EXPECT_GT(stage.busy, 0);
  ASSERT_EQ(std::ssize(stats.ranks), GetParam().tensor * GetParam().pipeline);
  for (const RankStats& rank : stats.ranks) EXPECT_TRUE(rank.up);
}

INSTANTIATE_TEST_SUITE_P(Degrees, RemoteDegreesTest,
                         ::testing::Values(Degrees{1, 1}, Degrees{1, 2}, Degrees{2, 1},
                                           Degrees{2, 2}),
                         [](const auto& test) {
                           return absl::StrCat("Tensor", test.param.tensor, "Pipeline",
                                               test.param.pipeline);
                         });

TEST_F(RemoteGroupTest, AKilledRankIsNamedAndOnlyItIsStartedAgain) {
  const auto executor = Load(Cut(2, 2));
  ASSERT_NE(executor, nullptr);
  const std::vector<float> expected = LogitsOf(*executor, tokens_, 7, 2, blocks_);
  const pid_t killed = WorkerOf(2), other = WorkerOf(1);
  ASSERT_NE(killed, 0);
  const uint64_t epoch = executor->epoch();
  ASSERT_EQ(kill(killed, SIGKILL), 0);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (executor->status().ok() && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  EXPECT_EQ(executor->status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(executor->status().message()),
              ::testing::AllOf(HasSubstr("rank 2"), HasSubstr(absl::StrCat("pid ", killed)),
                               HasSubstr("signal 9")));
  EXPECT_FALSE(executor->Stats().ranks[2].up);

  const absl::Status restarted = executor->Restart();
  ASSERT_TRUE(restarted.ok()) << restarted;
  EXPECT_GT(executor->epoch(), epoch);
  EXPECT_NE(WorkerOf(2), killed);
  EXPECT_EQ(WorkerOf(1), other);
  EXPECT_EQ(executor->Stats().ranks[2].restarts, 1);
  EXPECT_EQ(executor->Stats().ranks[1].restarts, 0);
  EXPECT_EQ(LogitsOf(*executor, tokens_, 7, 2, blocks_), expected);
}

TEST_F(RemoteGroupTest, AStepThatARankDiesInFailsAtOnceAndTheNextEpochWorks) {
  const auto executor = Load(Cut(2, 1));
  ASSERT_NE(executor, nullptr);
  const std::vector<float> expected = LogitsOf(*executor, tokens_, 7, 1, blocks_);
  const pid_t victim = WorkerOf(0);
  executor->Launch(MakeStep(*executor, 0, {{tokens_, 0, 40, blocks_}}));
  ASSERT_EQ(kill(victim, SIGKILL), 0);
  const auto result = executor->Wait();
  if (!result.ok()) {  // else it was done before
    EXPECT_EQ(result.status().code(), absl::StatusCode::kUnavailable) << result.status();
  }
  ASSERT_TRUE(RestartEventually(*executor).ok());
  EXPECT_EQ(LogitsOf(*executor, tokens_, 7, 1, blocks_), expected);
}

TEST_F(RemoteGroupTest, AStoppedRankIsFoundByItsSilenceKilledAndReplaced) {
  const auto executor = Load(Cut(1, 2), milliseconds(1500));
  ASSERT_NE(executor, nullptr);
  const std::vector<float> expected = LogitsOf(*executor, tokens_, 7, 2, blocks_);
  const pid_t stopped = WorkerOf(1);
  ASSERT_EQ(kill(stopped, SIGSTOP), 0);
  executor->Launch(MakeStep(*executor, 0, {{tokens_, 0, 40, blocks_}}));
  const auto result = executor->Wait();
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("no sign of life"));
  ASSERT_TRUE(RestartEventually(*executor).ok());
  EXPECT_NE(kill(stopped, 0), 0);
  EXPECT_EQ(LogitsOf(*executor, tokens_, 7, 2, blocks_), expected);
}

TEST_F(RemoteGroupTest, AnAbortedStepCostsNoProcess) {
  const auto executor = Load(Cut(2, 2));
  ASSERT_NE(executor, nullptr);
  const std::vector<float> expected = LogitsOf(*executor, tokens_, 7, 2, blocks_);
  const pid_t worker = WorkerOf(3);
  executor->Launch(MakeStep(*executor, 0, {{tokens_, 0, 40, blocks_}}));
  executor->Abort(absl::CancelledError("enough"));
  EXPECT_EQ(executor->Wait().status().message(), "enough");
  ASSERT_TRUE(executor->Restart().ok());
  EXPECT_EQ(WorkerOf(3), worker);
  EXPECT_EQ(LogitsOf(*executor, tokens_, 7, 2, blocks_), expected);
}

TEST_F(RemoteGroupTest, NothingIsLeftBehind) {
  const auto count = [] {
    int found = 0;
    for (const char* folder : {"/dev/shm", "/tmp/penstock-remote-test"})
      for (const auto& entry : std::filesystem::directory_iterator(folder))
        found += absl::StrContains(entry.path().string(), absl::StrCat("penstock-", getpid())) ||
                 absl::StrContains(entry.path().string(), "remote-test/");
    return found;
  };
  std::filesystem::create_directory("/tmp/penstock-remote-test");
  const TestModel model(Cut(2, 2));
  RemoteGroupOptions options = Options(model);
  options.worker.build = PENSTOCK_VERSION;
  options.worker.socket_directory = "/tmp/penstock-remote-test";
  auto executor = LoadRemoteGroup(*model.checkpoint, model.spec, model.plan, options, nullptr);
  ASSERT_TRUE(executor.ok()) << executor.status();
  EXPECT_EQ(count(), 0);
  const pid_t worker = WorkerOf(0);
  executor->reset();
  EXPECT_EQ(count(), 0);
  EXPECT_NE(kill(worker, 0), 0);
  std::filesystem::remove_all("/tmp/penstock-remote-test");
}

TEST_F(RemoteGroupTest, AnotherBuildAndAnotherModelAreRefused) {
  const TestModel model(Cut(1, 2));
  RemoteGroupOptions options = Options(model);
  options.worker.build = "another";
  const auto load = [&] {
    return LoadRemoteGroup(*model.checkpoint, model.spec, model.plan, options, nullptr).status();
  };
  absl::Status status = load();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("another"));

  options.worker.build = PENSTOCK_VERSION;
  options.model_path = PENSTOCK_TEST_DATA "/models/llama-mha";
  status = load();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("is not the model that the leader has"));
  options.model_path = "/no/such/model";
  EXPECT_THAT(std::string(load().message()), HasSubstr("/no/such/model"));
}

}  // namespace
}  // namespace penstock
