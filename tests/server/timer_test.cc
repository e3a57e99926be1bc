#include "server/timer.h"

#include <atomic>
#include <memory>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "tests/server/serving_fixture.h"

namespace penstock {
namespace {

// Rings of one alarm.
struct Bell {
  explicit Bell(Timer& timer) : alarm(timer, [this] { ++rings; }) {}
  std::atomic<int> rings{0};
  Timer::Alarm alarm;
};

TEST(TimerTest, AlarmsRingOnceInTheirOrder) {
  Timer timer;
  Mutex mutex;
  std::vector<int> order;
  std::vector<std::unique_ptr<Timer::Alarm>> alarms;
  const absl::Time now = absl::Now();
  for (const int i : {3, 1, 2, 0}) {
    alarms.push_back(std::make_unique<Timer::Alarm>(timer, [&, i] {
      MutexLock lock(&mutex);
      order.push_back(i);
    }));
    alarms.back()->Set(now + absl::Milliseconds(20 + 10 * i));
  }
  EXPECT_TRUE(Eventually([&] {
    MutexLock lock(&mutex);
    return order.size() == 4;
  }));
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_GE(absl::Now(), now + absl::Milliseconds(50));
  absl::SleepFor(absl::Milliseconds(20));
  MutexLock lock(&mutex);
  EXPECT_EQ(order.size(), 4u);
}

TEST(TimerTest, ATimeCanBeMovedAndTakenBack) {
  Timer timer;
  Bell moved(timer), cancelled(timer), later(timer), past(timer);
  const absl::Time now = absl::Now();
  later.alarm.Set(now + absl::Hours(10));
  cancelled.alarm.Set(now + absl::Milliseconds(50));
  moved.alarm.Set(now + absl::Hours(1));
  moved.alarm.Set(now + absl::Milliseconds(20));
  cancelled.alarm.Cancel();
  past.alarm.Set(now - absl::Hours(1));
  EXPECT_TRUE(Eventually([&] { return moved.rings == 1 && past.rings == 1; }));
  absl::SleepFor(absl::Milliseconds(60));
  EXPECT_EQ(cancelled.rings, 0);
  EXPECT_EQ(later.rings, 0);
  moved.alarm.Set(absl::Now());  // again
  EXPECT_TRUE(Eventually([&] { return moved.rings == 2; }));
}

TEST(TimerTest, NothingRingsOnceCancelled) {
  Timer timer;
  for (int i = 0; i < 300; ++i) {
    auto alive = std::make_unique<std::atomic<bool>>(true);
    std::atomic<bool> rang_dead{false};
    {
      Timer::Alarm alarm(timer, [&] {
        if (!alive->load()) rang_dead = true;
      });
      alarm.Set(absl::Now() + absl::Microseconds(i % 100));
      if (i % 3 == 0) absl::SleepFor(absl::Microseconds(50));
    }  // waits for a ring that has begun
    alive->store(false);
    EXPECT_FALSE(rang_dead);
  }
}

}  // namespace
}  // namespace penstock
