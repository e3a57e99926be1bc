#include "shard/comm/futex_signal.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace penstock {
namespace {

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
static_assert(std::atomic<uint32_t>::is_always_lock_free);

long Futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* at_most) {
  return syscall(SYS_futex, &word, operation, value, at_most, nullptr, 0);
}

}  // namespace

void FutexWait(std::atomic<uint32_t>& word, uint32_t seen, std::chrono::nanoseconds at_most) {
  timespec time{};
  time.tv_sec = static_cast<time_t>(at_most.count() / 1000000000);
  time.tv_nsec = static_cast<long>(at_most.count() % 1000000000);
  Futex(word, FUTEX_WAIT, seen, &time);
}

void FutexWakeAll(std::atomic<uint32_t>& word) { Futex(word, FUTEX_WAKE, INT_MAX, nullptr); }

}  // namespace penstock
