// Ranks in processes of their own, and what they do when one of them is killed or stopped.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/comm/shm_comm.h"
#include "tests/comm/groups.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr uint64_t kEpoch = 1;

// A process that exits with 0 when `body` returns true. Killed, if need be, at the end.
class Child {
 public:
  explicit Child(const std::function<bool()>& body) : pid_(fork()) {
    if (pid_ == 0) _exit(body() ? 0 : 1);
  }
  ~Child() {
    if (pid_ <= 0) return;
    Signal(SIGKILL);
    Await();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void Signal(int signal) const { kill(pid_, signal); }
  // Returns once it has stopped (by SIGSTOP).
  void AwaitStop() const {
    int status = 0;
    ASSERT_EQ(waitpid(pid_, &status, WUNTRACED), pid_);
    ASSERT_TRUE(WIFSTOPPED(status));
  }
  bool Await() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  pid_t pid_;
};

// A group whose rank 0 is this process and whose others are children.
struct Processes {
  Processes(int count, milliseconds timeout, bool spin, int64_t max_elements = 100000)
      : size(count), options(LinkedOptions(count, timeout, spin, max_elements)) {
    const absl::Status created = CreateShmGroup(segment, size, kEpoch, options);
    EXPECT_TRUE(created.ok()) << created;
  }
  std::unique_ptr<Communicator> Join(int rank) const {
    auto comm = JoinShmGroup(segment, "test", rank, size, kEpoch, options);
    EXPECT_TRUE(comm.ok()) << comm.status();
    return *std::move(comm);
  }

  const TestSegment segment;
  const int size;
  const CommOptions options;
};

// One all-reduce of `elements`, different in every round. False when it failed or a sum is wrong.
bool Reduce(Communicator& comm, int64_t elements, int round) {
  const auto term = [&](int rank, int64_t i) {
    return 0.1f * static_cast<float>(rank + 1) + static_cast<float>(i % 97) * 0.3f +
           static_cast<float>(round);
  };
  std::vector<float> values(static_cast<size_t>(elements));
  for (int64_t i = 0; i < elements; ++i) values[static_cast<size_t>(i)] = term(comm.rank(), i);
  comm.AllReduceSum({values.data(), 1, elements, elements, DType::kF32});
  if (!comm.status().ok()) return false;
  for (int64_t i = 0; i < elements; ++i) {
    float sum = term(0, i);
    for (int rank = 1; rank < comm.size(); ++rank) sum += term(rank, i);
    EXPECT_EQ(values[static_cast<size_t>(i)], sum) << "round " << round << ", element " << i;
    if (values[static_cast<size_t>(i)] != sum) return false;
  }
  return true;
}

bool ReduceAndPassOn(Communicator& comm, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    for (const int64_t elements : {1, 300, 20000, 100000})
      if (!Reduce(comm, elements, round)) return false;
    float value = static_cast<float>(round);
    const Matrix one{&value, 1, 1, 1, DType::kF32};
    if (comm.rank() > 0) comm.Recv(comm.rank() - 1, one);
    value += 1;
    if (comm.rank() + 1 < comm.size()) comm.Send(one, comm.rank() + 1);
    if (value != static_cast<float>(round + comm.rank() + 1)) return false;
  }
  return comm.status().ok();
}

TEST(ShmProcessTest, ProcessesAddUpAndPassOn) {
  for (const bool spin : {false, true}) {
    const Processes group(3, milliseconds(60000), spin);
    Child one([&] { return ReduceAndPassOn(*group.Join(1), 20); });
    Child two([&] { return ReduceAndPassOn(*group.Join(2), 20); });
    const auto comm = group.Join(0);
    EXPECT_TRUE(ReduceAndPassOn(*comm, 20)) << comm->status();
    EXPECT_TRUE(one.Await());
    EXPECT_TRUE(two.Await());
  }
}

// The victim is killed wherever it is while the others work on: waiting, parked, copying, between
// its change and its wake-up. Every sum until the bound must still be right.
TEST(ShmProcessTest, AKilledRankSpoilsNoSumAndIsNamedWhenTheBoundPasses) {
  for (int trial = 0; trial < 12; ++trial) {
    const Processes group(3, milliseconds(500), trial % 2 == 0);
    const int64_t elements = trial % 3 == 0 ? 100000 : 500;
    const auto work = [&](int rank) {
      const auto comm = group.Join(rank);
      int round = 0;
      while (Reduce(*comm, elements, round)) ++round;
      return comm->status().code() == absl::StatusCode::kDeadlineExceeded;
    };
    Child victim([&] { return work(1); });
    Child other([&] { return work(2); });
    const auto comm = group.Join(0);
    int round = 0;
    while (Reduce(*comm, elements, round)) {
      if (++round == 3 + trial) victim.Signal(SIGKILL);
    }
    if (round < 3 + trial) continue;  // the bound passed before: a machine too busy to tell
    EXPECT_EQ(comm->status().code(), absl::StatusCode::kDeadlineExceeded) << comm->status();
    EXPECT_THAT(std::string(comm->status().message()), HasSubstr("AllReduceSum"));
    EXPECT_THAT(std::string(comm->status().message()), HasSubstr("no sign of rank 1"));
    EXPECT_FALSE(victim.Await());
    EXPECT_TRUE(other.Await());
  }
}

TEST(ShmProcessTest, AStoppedRankIsNamedAndComesBackToAFailedGroup) {
  const Processes group(2, milliseconds(200), false);
  Child child([&] {
    const auto comm = group.Join(1);
    raise(SIGSTOP);
    float value = 1;
    comm->AllReduceSum({&value, 1, 1, 1, DType::kF32});
    return value == 1 && comm->status().code() == absl::StatusCode::kDeadlineExceeded;
  });
  child.AwaitStop();
  const auto comm = group.Join(0);
  EXPECT_FALSE(Reduce(*comm, 10, 0));
  EXPECT_EQ(comm->status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(comm->status().message()), HasSubstr("rank 1"));
  child.Signal(SIGCONT);
  EXPECT_TRUE(child.Await());
}

TEST(ShmProcessTest, ARankThatStopsAndGoesOnInTimeChangesNothing) {
  const Processes group(2, milliseconds(60000), false);
  Child child([&] { return ReduceAndPassOn(*group.Join(1), 40); });
  const auto comm = group.Join(0);
  for (int part = 0; part < 40; ++part) {
    child.Signal(SIGSTOP);
    child.AwaitStop();
    child.Signal(SIGCONT);
    for (const int64_t elements : {1, 300, 20000, 100000})
      ASSERT_TRUE(Reduce(*comm, elements, part)) << comm->status();
    float value = static_cast<float>(part + 1);
    comm->Send({&value, 1, 1, 1, DType::kF32}, 1);
  }
  EXPECT_TRUE(child.Await());
}

TEST(ShmProcessTest, AnAbortReachesTheRanksOfOtherProcesses) {
  const absl::Status why = absl::UnavailableError("rank 0 has had enough");
  for (const bool outsider : {false, true}) {
    const Processes group(3, milliseconds(60000), false);
    const auto told = [&](int rank) {
      const auto comm = group.Join(rank);
      Reduce(*comm, 10, 0);  // which nobody else joins: only the abort ends it
      return comm->status() == why;
    };
    Child one([&] { return told(1); });
    Child two([&] { return told(2); });
    if (outsider)
      EXPECT_TRUE(AbortShmGroup(group.segment, 3, kEpoch, group.options, why).ok());
    else
      group.Join(0)->Abort(why);
    EXPECT_TRUE(one.Await());
    EXPECT_TRUE(two.Await());
  }
}

TEST(ShmProcessTest, WhatADeadLeaderLeavesCanBeRemovedAndMadeAnew) {
  const TestSegment segment;
  const CommOptions options = LinkedOptions(2);
  Child leader([&] {
    if (!CreateShmGroup(segment, 2, kEpoch, options).ok()) return false;
    return raise(SIGKILL) == 0;
  });
  EXPECT_FALSE(leader.Await());
  EXPECT_EQ(CreateShmGroup(segment, 2, kEpoch, options).code(), absl::StatusCode::kAlreadyExists);
  ASSERT_TRUE(RemoveShmGroup(segment).ok());
  EXPECT_TRUE(CreateShmGroup(segment, 2, kEpoch, options).ok());
}

}  // namespace
}  // namespace penstock
