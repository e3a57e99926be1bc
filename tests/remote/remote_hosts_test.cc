// Workers that the leader dials, as on other hosts: groups over TCP, spares, and who is turned
// away.
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/remote/remote_group.h"
#include "shard/remote/worker_places.h"
#include "shard/remote/worker_server.h"
#include "shard/remote/worker_session.h"
#include "tests/shard/testing.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

std::unique_ptr<WorkerServer> Serve() {
  WorkerOptions options;
  options.build = PENSTOCK_VERSION;
  auto server = WorkerServer::Start("127.0.0.1:0", options, ShardCredentials());
  EXPECT_TRUE(server.ok()) << server.status();
  return server.ok() ? *std::move(server) : nullptr;
}

class RemoteHostsTest : public ::testing::Test {
 protected:
  static TestGroupOptions Cut(int tensor, int pipeline) {
    TestGroupOptions cut;
    cut.tensor = tensor;
    cut.pipeline = pipeline;
    return cut;
  }
  static RemoteGroupOptions Options(const TestModel& model, const std::string& places) {
    RemoteGroupOptions options;
    options.memory = model.memory;
    options.model_path = model.path;
    options.cpu = model.cpu;
    options.step_timeout = milliseconds(20000);
    options.start_timeout = milliseconds(1000);
    options.worker.build = PENSTOCK_VERSION;
    options.worker.dial_timeout = milliseconds(2000);
    options.places = *ParseWorkerPlaces(places, model.plan.ranks(), 1, 0);
    return options;
  }
  static absl::StatusOr<std::unique_ptr<Executor>> Load(const TestModel& model,
                                                        const RemoteGroupOptions& options) {
    return LoadRemoteGroup(*model.checkpoint, model.spec, model.plan, options, nullptr);
  }
  std::vector<float> Logits(Executor& executor) const {
    return LogitsOf(executor, tokens_, 7, executor.info().max_in_flight, {0, 1, 2, 3});
  }
  static absl::Status RestartEventually(Executor& executor) {
    absl::Status status = absl::UnknownError("not tried");
    for (int i = 0; i < 5 && !status.ok(); ++i) status = executor.Restart();
    return status;
  }

  const std::vector<int32_t> tokens_ = RandomTokens(40, 3);
};

TEST_F(RemoteHostsTest, HostsComputeTheBitsOfThreadsHoweverRanksAreSharedOut) {
  const auto first = Serve(), second = Serve(), third = Serve(), fourth = Serve();
  const std::string a = first->address(), b = second->address(), c = third->address(),
                    d = fourth->address();
  struct Case {
    int tensor, pipeline;
    std::string places;
  };
  for (const Case& each :
       {Case{1, 2, absl::StrCat(a, ",", b)}, Case{2, 1, absl::StrCat(a, ",", b)},
        Case{2, 2, absl::StrCat(a, "*2,", b, "*2")}, Case{2, 2, absl::StrJoin({a, b, c, d}, ",")},
        Case{2, 2, absl::StrCat(a, "*4")}, Case{1, 3, absl::StrCat(a, ",", b, "*2")}}) {
    const TestGroupOptions cut = Cut(each.tensor, each.pipeline);
    const TestModel model(cut);
    const auto remote = Load(model, Options(model, each.places));
    ASSERT_TRUE(remote.ok()) << each.places << ": " << remote.status();
    EXPECT_EQ(Logits(**remote), Logits(*LoadTestGroup(cut))) << each.places;
  }
}

TEST_F(RemoteHostsTest, ASpareTakesOverAndWhoWasLostIsTheNextSpare) {
  const auto first = Serve();
  auto second = Serve();
  const auto spare = Serve();
  const TestModel model(Cut(1, 2));
  RemoteGroupOptions options =
      Options(model, absl::StrCat(first->address(), ",", second->address()));
  options.spares = {spare->address()};
  const auto executor = Load(model, options);
  ASSERT_TRUE(executor.ok()) << executor.status();
  const std::vector<float> expected = Logits(**executor);
  second.reset();
  (*executor)->Launch(MakeStep(**executor, 0, {{tokens_, 0, 40, {0, 1, 2, 3}}}));
  const absl::Status lost = (*executor)->Wait().status();
  EXPECT_FALSE(lost.ok());
  ASSERT_TRUE(RestartEventually(**executor).ok());
  EXPECT_EQ(Logits(**executor), expected);
}

TEST_F(RemoteHostsTest, AWorkerHasOneLeader) {
  const auto worker = Serve();
  const TestModel model(Cut(1, 1));
  const auto executor = Load(model, Options(model, worker->address()));
  ASSERT_TRUE(executor.ok()) << executor.status();
  const auto second = Load(model, Options(model, worker->address()));
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("has a leader already"));
  EXPECT_FALSE(Logits(**executor).empty());  // and is not disturbed by another
}

TEST_F(RemoteHostsTest, WhereNobodyListensIsToldWithinTheBound) {
  std::string address = Serve()->address();  // and gone
  const TestModel model(Cut(1, 1));
  RemoteGroupOptions options = Options(model, address);
  options.worker.dial_timeout = milliseconds(200);
  const auto begin = std::chrono::steady_clock::now();
  const auto executor = Load(model, options);
  EXPECT_EQ(executor.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(executor.status().message()), HasSubstr(address));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST_F(RemoteHostsTest, AHostWithTooLittleMemoryIsRefusedWithTheNumbers) {
  const auto worker = Serve();
  const TestModel model(Cut(1, 1));
  RemoteGroupOptions options = Options(model, worker->address());
  options.memory.ranks[0].kv = int64_t{1} << 50;
  const auto executor = Load(model, options);
  EXPECT_EQ(executor.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(executor.status().message()), HasSubstr("MiB are available"));
}

TEST(WorkerPlacesTest, AreReadStrictly) {
  const auto places = ParseWorkerPlaces("a:1*2,[::1]:2;c:3*3", 3, 2, 0);
  ASSERT_TRUE(places.ok()) << places.status();
  ASSERT_EQ(places->size(), 2u);
  EXPECT_EQ((*places)[0].address, "a:1");
  EXPECT_EQ((*places)[0].ranks, (std::vector<int>{0, 1}));
  EXPECT_EQ((*places)[1].address, "[::1]:2");
  EXPECT_EQ((*places)[1].ranks, (std::vector<int>{2}));
  for (const char* bad :
       {"", "a", "a:1*0", "a:1*4", "a:1*x", "a:1*-1", "a:1*3,", "a:1*2", "a:1*3;b:1*3"})
    EXPECT_EQ(ParseWorkerPlaces(bad, 3, 1, 0).status().code(), absl::StatusCode::kInvalidArgument)
        << bad;
  EXPECT_TRUE(ParseSpares("")->empty());
  EXPECT_EQ(ParseSpares("a:1,b:2")->size(), 2u);
  EXPECT_FALSE(ParseSpares("a").ok());
}

// What a leader that has lost its mind may send.
TEST(WorkerSessionTest, MessagesOutOfOrderEndTheSessionAndNothingElse) {
  WorkerOptions options;
  options.build = "b";
  const auto handle = [&](std::initializer_list<v1::LeaderMessage> messages) {
    WorkerSession session(options, [](const v1::WorkerMessage&) {});
    absl::Status status;
    for (const v1::LeaderMessage& message : messages)
      if (status.ok()) status = session.Handle(message);
    return status;
  };
  v1::LeaderMessage hello, stranger, load, prepare, connect, run, abort, nothing;
  hello.mutable_hello()->set_protocol(1);
  hello.mutable_hello()->set_build("b");
  stranger.mutable_hello()->set_protocol(99);
  load.mutable_load();
  prepare.mutable_prepare()->set_epoch(1);
  connect.mutable_connect()->set_epoch(1);
  run.mutable_run()->set_epoch(1);
  abort.mutable_abort()->set_epoch(1);
  EXPECT_TRUE(handle({hello}).ok());
  EXPECT_TRUE(handle({hello, abort}).ok());  // of nothing
  for (const v1::LeaderMessage& first : {load, prepare, connect, run, abort, nothing})
    EXPECT_EQ(handle({first}).code(), absl::StatusCode::kFailedPrecondition);
  for (const v1::LeaderMessage& second : {stranger, prepare, connect, run})
    EXPECT_EQ(handle({hello, second}).code(), absl::StatusCode::kFailedPrecondition);
  for (const v1::LeaderMessage& second : {load, nothing})
    EXPECT_EQ(handle({hello, second}).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace penstock
