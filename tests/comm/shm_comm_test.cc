#include "shard/comm/shm_comm.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/comm/futex_signal.h"
#include "tests/comm/groups.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kEpoch = 7;

class ShmGroupTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(CreateShmGroup(segment_, 2, kEpoch, options_).ok()); }

  absl::StatusOr<std::unique_ptr<Communicator>> Join(int rank) const {
    return JoinShmGroup(segment_, "test", rank, 2, kEpoch, options_);
  }
  // The error of joining otherwise than the group was made.
  std::string Refusal(int size, uint64_t epoch, const CommOptions& options) const {
    const absl::Status status = JoinShmGroup(segment_, "test", 0, size, epoch, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    return std::string(status.message());
  }

  const TestSegment segment_;
  const CommOptions options_ = LinkedOptions(2);
};

TEST_F(ShmGroupTest, WhoJoinsAnotherGroupThanWasMadeIsRefused) {
  EXPECT_THAT(Refusal(2, 8, options_), HasSubstr("epoch 7, not 8"));
  EXPECT_THAT(Refusal(3, kEpoch, options_), HasSubstr("a size of 2, not 3"));
  CommOptions larger = options_, deeper = options_, backwards = options_, unlinked = options_;
  larger.max_elements = 5000;
  deeper.send_depth = 3;
  backwards.links = {{1, 0}};
  unlinked.links = {};
  EXPECT_THAT(Refusal(2, kEpoch, larger), HasSubstr("matrices of 4096, not 5000"));
  EXPECT_THAT(Refusal(2, kEpoch, deeper), HasSubstr("send depth of 2, not 3"));
  EXPECT_THAT(Refusal(2, kEpoch, backwards), HasSubstr("no link from rank 1 to rank 0"));
  EXPECT_THAT(Refusal(2, kEpoch, unlinked), HasSubstr("links of 1, not 0"));
  EXPECT_TRUE(Join(0).ok());
}

TEST_F(ShmGroupTest, ARankIsJoinedOnce) {
  const auto first = Join(1);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(Join(1).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Join(2).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Join(-1).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ShmGroupTest, WithoutItsNameAGroupWorksOnAndNobodyElseJoins) {
  auto zero = Join(0), one = Join(1);
  ASSERT_TRUE(zero.ok() && one.ok());
  ASSERT_TRUE(RemoveShmGroup(segment_).ok());
  ASSERT_TRUE(RemoveShmGroup(segment_).ok());  // again
  EXPECT_EQ(Join(0).status().code(), absl::StatusCode::kNotFound);
  float value = 3;
  (*zero)->Send({&value, 1, 1, 1, DType::kF32}, 1);
  value = 0;
  (*one)->Recv(0, {&value, 1, 1, 1, DType::kF32});
  EXPECT_EQ(value, 3);
}

TEST_F(ShmGroupTest, AMemberOfAnOlderEpochCannotReachANewerGroupOfTheSameName) {
  auto old_zero = Join(0), old_one = Join(1);
  ASSERT_TRUE(RemoveShmGroup(segment_).ok());
  ASSERT_TRUE(CreateShmGroup(segment_, 2, kEpoch + 1, options_).ok());
  EXPECT_EQ(Join(0).status().code(), absl::StatusCode::kFailedPrecondition);
  auto one = JoinShmGroup(segment_, "test", 1, 2, kEpoch + 1, options_);
  ASSERT_TRUE(one.ok()) << one.status();
  float value = 1;
  (*old_zero)->Send({&value, 1, 1, 1, DType::kF32}, 1);
  (*old_one)->Abort(absl::UnavailableError("the old one"));
  EXPECT_TRUE((*one)->status().ok());
  EXPECT_EQ((*old_zero)->status(), absl::UnavailableError("the old one"));
}

TEST_F(ShmGroupTest, WhoIsNoMemberCanAbortTheGroup) {
  auto zero = Join(0);
  EXPECT_EQ(AbortShmGroup(segment_, 2, kEpoch + 1, options_, absl::OkStatus()).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE((*zero)->status().ok());
  const absl::Status why = absl::UnavailableError("worker 1 died (signal 9)");
  ASSERT_TRUE(AbortShmGroup(segment_, 2, kEpoch, options_, why).ok());
  ASSERT_TRUE(AbortShmGroup(segment_, 2, kEpoch, options_, absl::InternalError("later")).ok());
  EXPECT_EQ((*zero)->status(), why);
}

TEST_F(ShmGroupTest, ALongReasonIsCutNotRefused) {
  auto zero = Join(0), one = Join(1);
  (*zero)->Abort(absl::UnavailableError(std::string(5000, 'x')));
  EXPECT_EQ((*one)->status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string((*one)->status().message()), HasSubstr("xxxxxxxxxx"));
}

TEST_F(ShmGroupTest, ANameInUseIsLeftAlone) {
  auto zero = Join(0), one = Join(1);
  const absl::Status again = CreateShmGroup(segment_, 2, kEpoch, options_);
  EXPECT_EQ(again.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(again.message()), HasSubstr("its leader died"));
  float value = 3;
  (*zero)->Send({&value, 1, 1, 1, DType::kF32}, 1);
  (*one)->Recv(0, {&value, 1, 1, 1, DType::kF32});
  EXPECT_TRUE((*one)->status().ok());
}

TEST(ShmSegmentTest, TooLittleRoomIsSaidBeforeAnybodyWrites) {
  const TestSegment segment;
  CommOptions options = LinkedOptions(2);
  options.max_elements = int64_t{1} << 45;  // 512 TiB
  const absl::Status status = CreateShmGroup(segment, 2, kEpoch, options);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("--shm-size"));
  // And nothing of it is left.
  EXPECT_TRUE(CreateShmGroup(segment, 2, kEpoch, LinkedOptions(2)).ok());
}

TEST(ShmSegmentTest, WhatCannotBeANameIsRefused) {
  for (const std::string name : {"", "/a", "a/b", "..", ".", "-x"})
    EXPECT_EQ(CreateShmGroup(name, 2, kEpoch, LinkedOptions(2)).code(),
              absl::StatusCode::kInvalidArgument)
        << name;
  EXPECT_EQ(RemoveShmGroup(std::string(300, 'a')).code(), absl::StatusCode::kInvalidArgument);
}

// A leader that dies while it makes a segment, or somebody else's file of that name.
TEST(ShmSegmentTest, WhatIsNoWholeGroupIsRefused) {
  const TestSegment segment;
  const std::string path = "/" + std::string(segment);
  const int file = shm_open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  ASSERT_GE(file, 0);
  for (const int64_t bytes : {int64_t{0}, int64_t{100}, int64_t{512}, int64_t{100000}}) {
    ASSERT_EQ(ftruncate(file, bytes), 0);
    EXPECT_EQ(JoinShmGroup(segment, "test", 0, 2, kEpoch, LinkedOptions(2)).status().code(),
              absl::StatusCode::kFailedPrecondition)
        << bytes;
  }
  close(file);
}

TEST(ShmSegmentTest, ASegmentCutShortIsRefused) {
  const TestSegment segment;
  ASSERT_TRUE(CreateShmGroup(segment, 2, kEpoch, LinkedOptions(2)).ok());
  ASSERT_EQ(truncate(("/dev/shm/" + std::string(segment)).c_str(), 4096), 0);
  EXPECT_EQ(JoinShmGroup(segment, "test", 0, 2, kEpoch, LinkedOptions(2)).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// Who dies between a change and its Wake() has changed something all the same.
TEST(FutexSignalTest, AChangeThatNobodyTellsOfIsSeen) {
  FutexSignal signal;
  std::atomic<int> looks{0};
  const bool met =
      signal.Wait([&] { return ++looks > 2; }, false, std::chrono::milliseconds(60000));
  EXPECT_TRUE(met);
}

}  // namespace
}  // namespace penstock
