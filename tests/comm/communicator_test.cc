// What every communicator does, whatever its ranks are.
#include "shard/comm/communicator.h"

#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/comm/groups.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

struct Shape {
  int ranks;
  int64_t rows, cols;
  bool spin;
};
class AllReduceTest : public ::testing::TestWithParam<std::tuple<Transport, Shape>> {};

TEST_P(AllReduceTest, AddsInRankOrderWhateverTheSizeAndLeavesThePaddingAlone) {
  const auto [transport, shape] = GetParam();
  const auto [ranks, rows, cols, spin] = shape;
  Group group = MakeGroup(transport, ranks, milliseconds(20000), spin, 200000);
  std::vector<Numbers> expected;
  for (int rank = 0; rank < ranks; ++rank) expected.emplace_back(rows, cols, rank);
  OnEveryRank(group, [&, r = rows, c = cols](Communicator& comm) {
    for (int round = 0; round < 3; ++round) {
      Numbers mine(r, c, comm.rank());
      comm.AllReduceSum(mine.matrix);
      for (int64_t i = 0; i < r; ++i) {
        for (int64_t j = 0; j < c; ++j) {
          float sum = expected[0].at(i, j);
          for (int k = 1; k < comm.size(); ++k) sum += expected[static_cast<size_t>(k)].at(i, j);
          ASSERT_EQ(mine.at(i, j), sum) << i << "," << j;
        }
        EXPECT_EQ(mine.at(i, c), expected[static_cast<size_t>(comm.rank())].at(i, c));
      }
    }
    EXPECT_TRUE(comm.status().ok()) << comm.status();
  });
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, AllReduceTest,
    ::testing::Combine(::testing::Values(Transport::kLocal, Transport::kShm, Transport::kTcp),
                       ::testing::Values(Shape{1, 3, 5, false}, Shape{2, 1, 1, false},
                                         Shape{2, 7, 64, true}, Shape{3, 1, 2, false},
                                         Shape{4, 5, 33, false}, Shape{8, 2, 100, false},
                                         Shape{2, 16, 1024, false},  // by slices
                                         Shape{3, 1, 16411, false},
                                         Shape{3, 233, 641, false},  // several pieces
                                         Shape{2, 1, 140001, false})),
    [](const auto& test) {
      const Shape& shape = std::get<1>(test.param);
      return NameOf(std::get<0>(test.param)) + std::to_string(shape.ranks) + "Ranks" +
             std::to_string(shape.rows) + "x" + std::to_string(shape.cols);
    });

class CommunicatorTest : public ::testing::TestWithParam<Transport> {
 protected:
  template <typename... Options>
  static Group MakeGroup(int size, Options... options) {
    return penstock::MakeGroup(GetParam(), size, options...);
  }
};

INSTANTIATE_TEST_SUITE_P(Transports, CommunicatorTest,
                         ::testing::Values(Transport::kLocal, Transport::kShm, Transport::kTcp),
                         [](const auto& test) { return NameOf(test.param); });

// Where the failure of one is seen by all at once, as it is in memory that they share.
class SharedGroupTest : public CommunicatorTest {};

INSTANTIATE_TEST_SUITE_P(Transports, SharedGroupTest,
                         ::testing::Values(Transport::kLocal, Transport::kShm),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(CommunicatorTest, GathersEveryRanksRowsInRankOrder) {
  Group group = MakeGroup(3);
  OnEveryRank(group, [](Communicator& comm) {
    Numbers mine(2, 4, comm.rank());
    std::vector<float> all(3 * 2 * 4);
    const Matrix gathered{all.data(), 6, 4, 4, DType::kF32};
    comm.AllGather(mine.matrix, gathered);
    for (int rank = 0; rank < 3; ++rank) {
      const Numbers theirs(2, 4, rank);
      for (int row = 0; row < 2; ++row)
        for (int col = 0; col < 4; ++col)
          EXPECT_EQ(gathered.F32()[(rank * 2 + row) * 4 + col], theirs.at(row, col));
    }
  });
}

TEST_P(CommunicatorTest, GathersAnyTypeAndMoreThanTheBuffersHold) {
  Group group = MakeGroup(3, milliseconds(20000), false, 64);
  OnEveryRank(group, [](Communicator& comm) {
    std::vector<int32_t> mine(7 * 31, 1000 * comm.rank()), all(3 * 7 * 31);
    for (size_t i = 0; i < mine.size(); ++i) mine[i] += static_cast<int32_t>(i);
    comm.AllGather({mine.data(), 7, 31, 31, DType::kI32}, {all.data(), 21, 31, 31, DType::kI32});
    for (size_t i = 0; i < all.size(); ++i)
      ASSERT_EQ(all[i], static_cast<int32_t>(1000 * (i / 217) + i % 217));
    std::vector<uint16_t> half(300, static_cast<uint16_t>(comm.rank()));
    comm.Broadcast(2, {half.data(), 3, 100, 100, DType::kBF16});
    EXPECT_EQ(half, std::vector<uint16_t>(300, 2));
    EXPECT_TRUE(comm.status().ok()) << comm.status();
  });
}

TEST_P(CommunicatorTest, BroadcastsTheRootsMatrix) {
  Group group = MakeGroup(3);
  OnEveryRank(group, [](Communicator& comm) {
    Numbers mine(2, 4, comm.rank());
    comm.Broadcast(1, mine.matrix);
    EXPECT_EQ(mine.at(1, 3), Numbers(2, 4, 1).at(1, 3));
  });
}

TEST_P(CommunicatorTest, SentMatricesArriveInOrderAndMayBeChangedAtOnce) {
  constexpr int kCount = 200;
  Group group = MakeGroup(2);
  OnEveryRank(group, [](Communicator& comm) {
    std::mt19937 random(static_cast<unsigned>(comm.rank()));
    float value = 0;
    const Matrix matrix{&value, 1, 1, 1, DType::kF32};
    for (int i = 0; i < kCount; ++i) {
      if (random() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
      if (comm.rank() == 0) {
        value = static_cast<float>(i);
        comm.Send(matrix, 1);
        value = -1;
      } else {
        comm.Recv(0, matrix);
        ASSERT_EQ(value, static_cast<float>(i));
      }
    }
    EXPECT_TRUE(comm.status().ok());
  });
  EXPECT_GT(group[0]->transfer_seconds(), 0);
}

TEST_P(SharedGroupTest, AMissingRankIsNamedWhenTheBoundPasses) {
  Group group = MakeGroup(3, milliseconds(50));
  std::vector<std::thread> threads;
  for (int rank : {0, 2})
    threads.emplace_back([&, rank] {
      Numbers mine(1, 4, rank);
      group[static_cast<size_t>(rank)]->AllReduceSum(mine.matrix);
    });
  for (auto& thread : threads) thread.join();
  const absl::Status status = group[2]->status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("AllReduceSum"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("no sign of rank 1"));
}

TEST_P(SharedGroupTest, WaitingToSendAndToReceiveIsBounded) {
  float value = 0;
  const Matrix matrix{&value, 1, 1, 1, DType::kF32};
  Group sending = MakeGroup(2, milliseconds(50));
  for (int i = 0; i < 4; ++i) sending[0]->Send(matrix, 1);
  EXPECT_THAT(std::string(sending[0]->status().message()), HasSubstr("Send"));
  Group receiving = MakeGroup(2, milliseconds(50));
  receiving[1]->Recv(0, matrix);
  EXPECT_THAT(std::string(receiving[0]->status().message()), HasSubstr("rank 0 has not sent"));
}

TEST_P(SharedGroupTest, AbortFreesEveryWaitingRankAndSticks) {
  Group group = MakeGroup(3);
  std::thread aborter([&] {
    std::this_thread::sleep_for(milliseconds(30));
    group[1]->Abort(absl::UnavailableError("rank 1 died"));
  });
  const auto begin = std::chrono::steady_clock::now();
  std::thread reducer([&] {
    Numbers mine(1, 4, 0);
    group[0]->AllReduceSum(mine.matrix);
  });
  Numbers mine(1, 4, 2);
  group[2]->Recv(1, mine.matrix);
  reducer.join();
  aborter.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  for (auto& comm : group) EXPECT_EQ(comm->status(), absl::UnavailableError("rank 1 died"));
  group[0]->AllReduceSum(mine.matrix);  // returns at once
  group[1]->Abort(absl::InternalError("later"));
  EXPECT_EQ(group[0]->status(), absl::UnavailableError("rank 1 died"));
}

TEST_P(SharedGroupTest, WhatExceedsTheBuffersIsRefused) {
  Group group = MakeGroup(2);
  std::vector<float> values(5000);
  const Matrix large{values.data(), 50, 100, 100, DType::kF32};
  group[0]->AllReduceSum(large);
  EXPECT_EQ(group[1]->status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(group[1]->status().message()), HasSubstr("50x100"));
}

TEST_P(SharedGroupTest, RanksThatDisagreeFailInsteadOfMixingTheirNumbers) {
  Group group = MakeGroup(2);
  OnEveryRank(group, [](Communicator& comm) {
    Numbers mine(1 + comm.rank(), 4, comm.rank());
    comm.AllReduceSum(mine.matrix);
  });
  EXPECT_EQ(group[0]->status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(group[0]->status().message()), HasSubstr("1x4"));
  EXPECT_THAT(std::string(group[0]->status().message()), HasSubstr("2x4"));

  Group pair = MakeGroup(2);
  OnEveryRank(pair, [](Communicator& comm) {
    Numbers mine(1 + comm.rank(), 4, comm.rank());
    if (comm.rank() == 0) comm.Send(mine.matrix, 1);
    if (comm.rank() == 1) comm.Recv(0, mine.matrix);
  });
  EXPECT_THAT(std::string(pair[0]->status().message()), HasSubstr("sent 1x4, expected 2x4"));

  Group backwards = MakeGroup(2);
  Numbers mine(1, 4, 0);
  backwards[1]->Send(mine.matrix, 0);
  EXPECT_THAT(std::string(backwards[0]->status().message()), HasSubstr("no link"));
}

// More ranks than cores, each late at random, every operation in turn.
TEST_P(CommunicatorTest, ManyRanksWithRandomDelaysStayInStep) {
  constexpr int kRanks = 6;
  Group group = MakeGroup(kRanks);
  OnEveryRank(group, [](Communicator& comm) {
    std::mt19937 random(static_cast<unsigned>(comm.rank()) + 100);
    const int me = comm.rank();
    for (int round = 0; round < 60; ++round) {
      if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
      float sum = static_cast<float>(me + round);
      comm.AllReduceSum({&sum, 1, 1, 1, DType::kF32});
      ASSERT_EQ(sum, static_cast<float>(15 + kRanks * round));
      int32_t mine = me * round;
      std::vector<int32_t> all(kRanks);
      comm.AllGather({&mine, 1, 1, 1, DType::kI32}, {all.data(), kRanks, 1, 1, DType::kI32});
      for (int rank = 0; rank < kRanks; ++rank)
        ASSERT_EQ(all[static_cast<size_t>(rank)], rank * round);
      if (me > 0) comm.Recv(me - 1, {&sum, 1, 1, 1, DType::kF32});
      sum = static_cast<float>(1000 * me + round);
      if (me + 1 < kRanks) comm.Send({&sum, 1, 1, 1, DType::kF32}, me + 1);
      comm.Broadcast(round % kRanks, {&mine, 1, 1, 1, DType::kI32});
      ASSERT_EQ(mine, round % kRanks * round);
    }
    EXPECT_TRUE(comm.status().ok()) << comm.status();
  });
}

// A rank that is sent away may free its matrix at once, whatever the others are doing: for
// ThreadSanitizer and AddressSanitizer.
TEST_P(CommunicatorTest, AnAbortAmidstEverythingLeavesNobodyReadingAnothersMemory) {
  for (int round = 0; round < 20; ++round) {
    Group group = MakeGroup(3);
    std::thread aborter([&, round] {
      std::this_thread::sleep_for(std::chrono::microseconds(100 * round));
      group[0]->Abort(absl::UnavailableError("enough"));
    });
    OnEveryRank(group, [](Communicator& comm) {
      while (comm.status().ok()) {
        auto mine = std::make_unique<Numbers>(8, 64, comm.rank());
        comm.AllReduceSum(mine->matrix);
        if (comm.rank() == 0) comm.Send(mine->matrix, 1);
        if (comm.rank() == 1) comm.Recv(0, mine->matrix);
        std::fill(mine->values.begin(), mine->values.end(), 0.0f);
      }
    });
    aborter.join();
  }
}

}  // namespace
}  // namespace penstock
