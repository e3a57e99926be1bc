// What is particular to groups over TCP: joining, and failures that each rank finds for itself.
#include "shard/comm/gloo_comm.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/comm/groups.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

class GlooCommTest : public ::testing::Test {
 protected:
  GlooCommTest() { signal(SIGPIPE, SIG_IGN); }

  static std::unique_ptr<GlooJoin> Join(int rank, int size, uint64_t epoch = 7,
                                        milliseconds timeout = milliseconds(20000)) {
    auto join = GlooJoin::Create("127.0.0.1", "test", rank, size, epoch,
                                 LinkedOptions(size, timeout), timeout);
    EXPECT_TRUE(join.ok()) << join.status();
    return *std::move(join);
  }
  static std::string Text(const absl::Status& status) { return std::string(status.message()); }
};

TEST_F(GlooCommTest, SumsAreThoseOfLocalGroupsBitForBit) {
  for (int size : {2, 3, 4}) {
    Group tcp = MakeGroup(Transport::kTcp, size, milliseconds(20000), false, 70000);
    Group local = MakeGroup(Transport::kLocal, size, milliseconds(20000), false, 70000);
    for (const auto& [rows, cols] :
         {std::pair<int64_t, int64_t>{1, 1}, {3, 17}, {1, 16383}, {5, 3277}, {7, 10000}}) {
      std::vector<std::vector<float>> sums(2 * static_cast<size_t>(size));
      const auto sum = [&, r = rows, c = cols](Communicator& comm, size_t at) {
        Numbers mine(r, c, comm.rank());
        comm.AllReduceSum(mine.matrix);
        EXPECT_TRUE(comm.status().ok()) << comm.status();
        sums[at] = mine.values;
      };
      OnEveryRank(tcp, [&](Communicator& comm) { sum(comm, static_cast<size_t>(comm.rank())); });
      OnEveryRank(local, [&](Communicator& comm) {
        sum(comm, static_cast<size_t>(comm.rank() + comm.size()));
      });
      for (size_t rank = 0; rank < static_cast<size_t>(size); ++rank)
        EXPECT_EQ(sums[rank], sums[rank + static_cast<size_t>(size)]) << rows << "x" << cols;
    }
  }
}

TEST_F(GlooCommTest, ARankThatDoesNotComeIsNamed) {
  const auto present = Join(0, 2, 7, milliseconds(200));
  const std::string absent = Join(1, 2)->address();  // of one that has gone
  const auto begin = std::chrono::steady_clock::now();
  const auto comm = present->Connect({present->address(), absent});
  ASSERT_FALSE(comm.ok());
  EXPECT_THAT(Text(comm.status()), HasSubstr("rank 1"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST_F(GlooCommTest, AddressesOfNobodyAndOfOthersAreRefused) {
  const auto mine = Join(0, 2);
  const auto other = Join(1, 2);
  const std::string good = other->address();
  for (const std::string& bad : {std::string(), std::string("x"), good.substr(0, 30),
                                 good.substr(0, good.size() - 1), std::string(500, '\xff')}) {
    const auto comm = mine->Connect({mine->address(), bad});
    EXPECT_EQ(comm.status().code(), absl::StatusCode::kInvalidArgument) << comm.status();
  }
  for (const auto& stranger : {Join(1, 2, 8), Join(1, 3), Join(0, 2)}) {
    const auto comm = mine->Connect({mine->address(), stranger->address()});
    EXPECT_EQ(comm.status().code(), absl::StatusCode::kFailedPrecondition) << comm.status();
  }
  EXPECT_EQ(mine->Connect({mine->address()}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(GlooCommTest, AnAddressOfAnotherHostIsRefused) {
  const auto join =
      GlooJoin::Create("192.0.2.1", "test", 0, 2, 7, LinkedOptions(2), milliseconds(1000));
  EXPECT_EQ(join.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Text(join.status()), HasSubstr("192.0.2.1"));
}

TEST_F(GlooCommTest, ARankThatIsLateIsNamedWithTheOperation) {
  Group group = MakeGroup(Transport::kTcp, 3, milliseconds(100));
  std::vector<std::thread> threads;
  for (int rank : {0, 2})
    threads.emplace_back([&, rank] {
      Numbers mine(1, 4, rank);
      group[static_cast<size_t>(rank)]->AllReduceSum(mine.matrix);
    });
  for (auto& thread : threads) thread.join();
  for (int rank : {0, 2}) {  // one of them may see the other give up first
    const absl::Status status = group[static_cast<size_t>(rank)]->status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(Text(status), HasSubstr("AllReduceSum"));
  }
  const auto late = [&](int rank) {
    const absl::Status status = group[static_cast<size_t>(rank)]->status();
    return absl::IsDeadlineExceeded(status) &&
           Text(status).find("no sign of rank 1") != std::string::npos;
  };
  EXPECT_TRUE(late(0) || late(2));
}

TEST_F(GlooCommTest, WaitingToReceiveAndToSendIsBounded) {
  float value = 0;
  const Matrix matrix{&value, 1, 1, 1, DType::kF32};
  Group receiving = MakeGroup(Transport::kTcp, 2, milliseconds(100));
  receiving[1]->Recv(0, matrix);
  EXPECT_EQ(receiving[1]->status().code(), absl::StatusCode::kDeadlineExceeded);
  Group sending = MakeGroup(Transport::kTcp, 2, milliseconds(100));
  int sent = 0;
  for (; sent < 100 && sending[0]->status().ok(); ++sent) sending[0]->Send(matrix, 1);
  EXPECT_LT(sent, 100);
  EXPECT_EQ(sending[0]->status().code(), absl::StatusCode::kDeadlineExceeded)
      << sending[0]->status();
}

TEST_F(GlooCommTest, AnAbortFreesThisRankAtOnceAndThenTheOthers) {
  Group group = MakeGroup(Transport::kTcp, 3);
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> waiting;
  for (size_t rank : {1, 2})
    waiting.emplace_back([&, rank] {
      Numbers mine(1, 4, static_cast<int>(rank));
      group[rank]->Recv(static_cast<int>(rank) - 1, mine.matrix);
    });
  std::this_thread::sleep_for(milliseconds(30));
  group[1]->Abort(absl::UnavailableError("rank 1 is aborted"));
  for (std::thread& thread : waiting) thread.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_EQ(group[1]->status(), absl::UnavailableError("rank 1 is aborted"));
  EXPECT_FALSE(group[2]->status().ok());
  Numbers mine(1, 4, 1);
  group[1]->AllReduceSum(mine.matrix);  // returns at once
  group[1]->Abort(absl::InternalError("later"));
  EXPECT_EQ(group[1]->status(), absl::UnavailableError("rank 1 is aborted"));
}

TEST_F(GlooCommTest, RanksThatDisagreeFail) {
  Group group = MakeGroup(Transport::kTcp, 2);
  OnEveryRank(group, [](Communicator& comm) {
    Numbers mine(1 + comm.rank(), 4, comm.rank());
    comm.AllReduceSum(mine.matrix);
  });
  EXPECT_FALSE(group[0]->status().ok());
  EXPECT_FALSE(group[1]->status().ok());
  Group pair = MakeGroup(Transport::kTcp, 2);
  OnEveryRank(pair, [](Communicator& comm) {
    Numbers mine(1 + comm.rank(), 4, comm.rank());
    if (comm.rank() == 0) comm.Send(mine.matrix, 1);
    if (comm.rank() == 1) comm.Recv(0, mine.matrix);
  });
  EXPECT_EQ(pair[1]->status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Text(pair[1]->status()),
              ::testing::AllOf(HasSubstr("1x4"), HasSubstr("2x4"), HasSubstr("rank 0")));
  Group backwards = MakeGroup(Transport::kTcp, 2);
  Numbers mine(1, 4, 0);
  backwards[1]->Send(mine.matrix, 0);
  EXPECT_THAT(Text(backwards[1]->status()), HasSubstr("no link"));
  Group large = MakeGroup(Transport::kTcp, 2);
  std::vector<float> values(5000);
  large[0]->AllReduceSum({values.data(), 50, 100, 100, DType::kF32});
  EXPECT_THAT(Text(large[0]->status()), HasSubstr("50x100"));
}

TEST_F(GlooCommTest, AProcessThatIsKilledInASumIsNamedAtOnce) {
  int to_child[2], to_parent[2];
  ASSERT_EQ(pipe(to_child), 0);
  ASSERT_EQ(pipe(to_parent), 0);
  const auto exchange = [](GlooJoin& join, int in, int out) {
    const auto length = static_cast<uint32_t>(join.address().size());
    EXPECT_EQ(write(out, &length, sizeof(length)), static_cast<ssize_t>(sizeof(length)));
    EXPECT_EQ(write(out, join.address().data(), length), static_cast<ssize_t>(length));
    uint32_t other = 0;
    EXPECT_EQ(read(in, &other, sizeof(other)), static_cast<ssize_t>(sizeof(other)));
    std::string address(other, '\0');
    EXPECT_EQ(read(in, address.data(), other), static_cast<ssize_t>(other));
    return address;
  };
  const pid_t child = fork();  // before this process has a thread of Gloo's
  if (child == 0) {
    const auto join = Join(1, 2);
    const std::string other = exchange(*join, to_child[0], to_parent[1]);
    const auto comm = join->Connect({other, join->address()});
    Numbers mine(1, 4, 1);
    for (;;) (*comm)->AllReduceSum(mine.matrix);
  }
  const auto join = Join(0, 2);
  const std::string other = exchange(*join, to_parent[0], to_child[1]);
  const auto comm = join->Connect({join->address(), other});
  ASSERT_TRUE(comm.ok()) << comm.status();
  Numbers mine(1, 4, 0);
  (*comm)->AllReduceSum(mine.matrix);
  ASSERT_EQ(kill(child, SIGKILL), 0);
  const auto begin = std::chrono::steady_clock::now();
  while ((*comm)->status().ok()) (*comm)->AllReduceSum(mine.matrix);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_EQ((*comm)->status().code(), absl::StatusCode::kUnavailable) << (*comm)->status();
  EXPECT_THAT(Text((*comm)->status()), HasSubstr("rank 1"));
  waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace penstock
