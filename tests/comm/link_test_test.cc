#include "shard/comm/link_test.h"

#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/comm/groups.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;

class LinkTest : public ::testing::TestWithParam<Transport> {};

INSTANTIATE_TEST_SUITE_P(Transports, LinkTest,
                         ::testing::Values(Transport::kLocal, Transport::kShm, Transport::kTcp),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(LinkTest, GoodLinksAreMeasured) {
  for (int size : {1, 2, 3}) {
    Group group = MakeGroup(GetParam(), size);
    OnEveryRank(group, [&](Communicator& comm) {
      const auto speed = TestLinks(comm, 4096);
      ASSERT_TRUE(speed.ok()) << speed.status();
      EXPECT_EQ(speed->latency_us > 0, size > 1);
      EXPECT_EQ(speed->bytes_per_second > 0, size > 1);
    });
  }
}

// Passes everything on but flips one bit of what another rank has sent.
class Flipping final : public Communicator {
 public:
  explicit Flipping(Communicator& inner) : inner_(inner) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void AllReduceSum(Matrix inout) override { inner_.AllReduceSum(inout); }
  void AllGather(Matrix mine, Matrix all) override {
    inner_.AllGather(mine, all);
    if (all.cols > 100) all.Rows(1, 1).I32()[77] ^= 1 << 5;
  }
  void Broadcast(int root, Matrix inout) override { inner_.Broadcast(root, inout); }
  void Send(Matrix from, int to_rank) override { inner_.Send(from, to_rank); }
  void Recv(int from_rank, Matrix to) override { inner_.Recv(from_rank, to); }
  absl::Status status() const override { return inner_.status(); }
  void Abort(const absl::Status& why) override { inner_.Abort(why); }
  double transfer_seconds() const override { return inner_.transfer_seconds(); }
  double wait_seconds() const override { return inner_.wait_seconds(); }

 private:
  Communicator& inner_;
};

TEST(LinkTestFaults, ABitThatFlipsOnItsWayIsFoundAndBothEndsAreNamed) {
  Group group = MakeGroup(Transport::kLocal, 2, std::chrono::milliseconds(300));
  absl::Status found;
  OnEveryRank(group, [&](Communicator& comm) {
    if (comm.rank() == 1) {
      TestLinks(comm, 4096).IgnoreError();
      return;
    }
    Flipping flipping(comm);
    found = TestLinks(flipping, 4096).status();
  });
  EXPECT_EQ(found.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(found.message()),
              ::testing::AllOf(HasSubstr("rank 0"), HasSubstr("rank 1"), HasSubstr("byte 308")));
}

TEST(LinkTestFaults, AGroupThatFailsTellsWhy) {
  Group group = MakeGroup(Transport::kLocal, 2, std::chrono::milliseconds(50));
  const auto speed = TestLinks(*group[0], 4096);
  EXPECT_EQ(speed.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(speed.status().message()), HasSubstr("no sign of rank 1"));
}

}  // namespace
}  // namespace penstock
