#include "server/task_pool.h"

#include <atomic>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "server/doorbell.h"

namespace penstock {
namespace {

TEST(TaskPoolTest, RunsWhatTasksPostBeforeItIsGone) {
  std::atomic<int> ran{0};
  {
    TaskPool pool(2);
    for (int i = 0; i < 10; ++i)
      pool.Post([&] {
        ++ran;
        pool.Post([&] { ++ran; });
      });
  }
  EXPECT_EQ(ran.load(), 20);
}

TEST(TaskPoolTest, OneThreadRunsTasksInTheOrderOfPosting) {
  std::vector<int> order;
  {
    TaskPool pool(1);
    for (int i = 0; i < 100; ++i) pool.Post([&order, i] { order.push_back(i); });
  }
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

// Threads fall asleep between two tasks, and every task finds one that wakes.
TEST(TaskPoolTest, NoTaskIsForgotten) {
  TaskPool pool(2);
  for (int i = 0; i < 20000; ++i) {
    std::atomic<int> left{1 + i % 3};
    for (int task = left.load(); task > 0; --task) pool.Post([&left] { --left; });
    while (left.load() > 0) std::this_thread::yield();
  }
}

TEST(TaskPoolTest, ALongTaskHoldsNobodyUp) {
  Doorbell bell;
  TaskPool pool(2);
  std::atomic<bool> other_ran{false};
  pool.Post([&] {
    const TaskPool::LongTask lent(pool);
    pool.Post([&] {
      other_ran = true;
      bell.Ring();
    });
    bell.AwaitFor(absl::Seconds(60));  // until the other thread has run it
    EXPECT_TRUE(other_ran.load());
  });
}

// Many tasks at once are more than one thread's.
TEST(TaskPoolTest, AnotherThreadHelpsWhoIsFarBehind) {
  Doorbell bell;
  TaskPool pool(2);
  pool.Post([&] {
    for (int i = 0; i < 1000; ++i) pool.Post([&] { bell.Ring(); });
    bell.AwaitFor(absl::Seconds(60));
  });
}

}  // namespace
}  // namespace penstock
