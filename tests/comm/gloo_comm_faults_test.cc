// Ranks over TCP that die in the midst of a message, never come, or are somebody else.
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/comm/gloo_comm.h"
#include "tests/comm/groups.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

class GlooCommFaultsTest : public ::testing::Test {
 protected:
  GlooCommFaultsTest() { signal(SIGPIPE, SIG_IGN); }

  static std::unique_ptr<GlooJoin> Join(int rank, milliseconds connect_timeout,
                                        int64_t max_elements = 4096, uint64_t epoch = 7) {
    const CommOptions options = LinkedOptions(2, milliseconds(20000), false, max_elements);
    auto join = GlooJoin::Create("127.0.0.1", "test", rank, 2, epoch, options, connect_timeout);
    EXPECT_TRUE(join.ok()) << join.status();
    return *std::move(join);
  }
  // Where the other rank of two finds the one of this address.
  static sockaddr_in PlaceIn(const GlooJoin& join, int rank) {
    sockaddr_in place{};
    const size_t header = 24, at = header + (rank == 0 ? 2 : 1);
    std::memcpy(&place, join.address().data() + at, sizeof(place));
    EXPECT_EQ(place.sin_family, AF_INET);
    return place;
  }
};

// A process whose body has two ends of a pipe to exchange addresses over.
class Other {
 public:
  explicit Other(int64_t elements) {
    EXPECT_EQ(pipe(down_.data()), 0);
    EXPECT_EQ(pipe(up_.data()), 0);
    pid_ = fork();
    if (pid_ != 0) return;
    const CommOptions options = LinkedOptions(2, milliseconds(20000), false, elements);
    auto join = GlooJoin::Create("127.0.0.1", "test", 1, 2, 7, options, milliseconds(20000));
    const std::string other = Swap((*join)->address(), down_[0], up_[1]);
    auto comm = (*join)->Connect({other, ""});
    std::vector<float> values(static_cast<size_t>(elements));
    while ((*comm)->status().ok())
      (*comm)->AllReduceSum({values.data(), 1, elements, elements, DType::kF32});
    _exit(0);
  }
  ~Other() {
    Kill();
    waitpid(pid_, nullptr, 0);
    for (int end : {down_[0], down_[1], up_[0], up_[1]}) close(end);
  }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;

  std::string Swap(const std::string& mine) { return Swap(mine, up_[0], down_[1]); }
  void Kill() const { kill(pid_, SIGKILL); }

 private:
  static std::string Swap(const std::string& mine, int in, int out) {
    std::array<char, 4096> bytes{};
    std::memcpy(bytes.data() + sizeof(size_t), mine.data(), mine.size());
    size_t length = mine.size();
    std::memcpy(bytes.data(), &length, sizeof(length));
    EXPECT_EQ(write(out, bytes.data(), bytes.size()), std::ssize(bytes));
    EXPECT_EQ(read(in, bytes.data(), bytes.size()), std::ssize(bytes));
    std::memcpy(&length, bytes.data(), sizeof(length));
    return std::string(bytes.data() + sizeof(size_t), length);
  }

  std::array<int, 2> down_{}, up_{};
  pid_t pid_ = -1;
};

TEST_F(GlooCommFaultsTest, ARankKilledInTheMidstOfAMessageIsNamedAtOnce) {
  constexpr int64_t kElements = 8 << 20;
  for (int trial = 0; trial < 12; ++trial) {
    Other other(kElements);
    const auto join = Join(0, milliseconds(20000), kElements);
    const auto comm = join->Connect({"", other.Swap(join->address())});
    ASSERT_TRUE(comm.ok()) << comm.status();
    std::vector<float> values(static_cast<size_t>(kElements));
    const auto sum = [&] {
      (*comm)->AllReduceSum({values.data(), 1, kElements, kElements, DType::kF32});
    };
    sum();
    ASSERT_TRUE((*comm)->status().ok()) << (*comm)->status();
    std::chrono::steady_clock::time_point killed;
    std::thread killer([&] {
      for (int i = 0; i < 3000 * trial; ++i) std::this_thread::yield();
      killed = std::chrono::steady_clock::now();
      other.Kill();
    });
    while ((*comm)->status().ok()) sum();
    killer.join();
    EXPECT_LT(std::chrono::steady_clock::now() - killed, std::chrono::seconds(8)) << trial;
    EXPECT_EQ((*comm)->status().code(), absl::StatusCode::kUnavailable) << (*comm)->status();
    EXPECT_THAT(std::string((*comm)->status().message()), HasSubstr("rank 1"));
  }
}

TEST_F(GlooCommFaultsTest, ARankThatListensButNeverConnectsIsNamedWithinTheBound) {
  for (int trial = 0; trial < 4; ++trial) {  // who connects to whom depends on the ports
    std::array<std::unique_ptr<GlooJoin>, 2> joins = {Join(0, milliseconds(600)),
                                                      Join(1, milliseconds(600))};
    const std::vector<std::string> addresses = {joins[0]->address(), joins[1]->address()};
    const auto begin = std::chrono::steady_clock::now();
    const auto comm = joins[static_cast<size_t>(trial % 2)]->Connect(addresses);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(2400));
    EXPECT_EQ(comm.status().code(), absl::StatusCode::kDeadlineExceeded) << comm.status();
    EXPECT_THAT(std::string(comm.status().message()),
                HasSubstr(trial % 2 == 0 ? "rank 1" : "rank 0"));
  }
}

TEST_F(GlooCommFaultsTest, AStrangerIsNotTakenForAPeer) {
  for (const uint64_t opcode : {2, 3, 4711}) {
    for (int rank : {0, 1}) {
      const auto join = Join(rank, milliseconds(300));
      const std::string peer = Join(1 - rank, milliseconds(300))->address();
      const sockaddr_in place = PlaceIn(*join, rank);
      const int line = socket(AF_INET, SOCK_STREAM, 0);
      ASSERT_EQ(connect(line, reinterpret_cast<const sockaddr*>(&place), sizeof(place)), 0);
      std::array<uint64_t, 600> junk;  // Gloo's preambles: bytes, opcode, slot, ...
      for (size_t i = 0; i < junk.size(); ++i)
        junk[i] = i % 6 == 1 ? opcode : i % 6 == 2 ? 0 : 1 << 20;
      ASSERT_EQ(send(line, junk.data(), sizeof(junk), MSG_NOSIGNAL), std::ssize(junk) * 8);
      const auto comm = join->Connect(rank == 0 ? std::vector<std::string>{"", peer}
                                                : std::vector<std::string>{peer, ""});
      EXPECT_FALSE(comm.ok());
      close(line);
    }
  }
}

// As when a port has been given to a rank of a later epoch meanwhile.
TEST_F(GlooCommFaultsTest, ARankOfAnotherEpochIsFoundOutWhateverItsAddressSays) {
  const auto now = Join(0, milliseconds(20000)), later = Join(1, milliseconds(20000), 4096, 8);
  const auto disguised = [](const GlooJoin& join, const GlooJoin& as) {
    std::string address = join.address();
    address.replace(8, 8, as.address().substr(8, 8));  // the identity
    return address;
  };
  absl::Status told;
  std::thread other([&] { told = later->Connect({disguised(*now, *later), ""}).status(); });
  const absl::Status status = now->Connect({"", disguised(*later, *now)}).status();
  other.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_EQ(told.code(), absl::StatusCode::kFailedPrecondition) << told;
}

TEST_F(GlooCommFaultsTest, WhatWasSentArrivesThoughTheSenderHasGone) {
  constexpr int64_t kElements = 4 << 20;
  for (int trial = 0; trial < 5; ++trial) {
    Group group = MakeGroup(Transport::kTcp, 2, milliseconds(20000), false, kElements);
    OnEveryRank(group, [&](Communicator& comm) {
      std::vector<float> values(kElements, 3.0f);
      const Matrix matrix{values.data(), 1, kElements, kElements, DType::kF32};
      if (comm.rank() == 0) {
        comm.Send(matrix, 1);
        comm.Send(matrix, 1);
        group[0].reset();
      } else {
        for (int i = 0; i < 2; ++i) {
          values.assign(values.size(), 0);
          comm.Recv(0, matrix);
          EXPECT_TRUE(comm.status().ok()) << comm.status();
          EXPECT_EQ(values.back(), 3.0f);
        }
      }
    });
  }
}

}  // namespace
}  // namespace penstock
