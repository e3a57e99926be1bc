#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"

namespace penstock {

// std::mutex with Clang's lock annotations and waiting by condition. Giving up the lock wakes the
// waiters, so there is no notify to forget. (absl::Mutex as packaged is invisible to
// ThreadSanitizer.)
class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() {
    mutex_.unlock();
    changed_.notify_all();
  }
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}

  // Gives up the lock until `condition()`, which is called with the lock held, is true.
  template <typename Condition>
  void Await(Condition condition) ABSL_EXCLUSIVE_LOCKS_REQUIRED(this) {
    std::unique_lock<std::mutex> lock(mutex_, std::adopt_lock);
    changed_.notify_all();
    changed_.wait(lock, condition);
    lock.release();
  }

  // As Await, but no longer than `timeout`. Returns condition().
  template <typename Condition>
  bool AwaitFor(Condition condition, std::chrono::nanoseconds timeout)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(this) {
    std::unique_lock<std::mutex> lock(mutex_, std::adopt_lock);
    changed_.notify_all();
    // system_clock: GCC 12's TSan does not know pthread_cond_clockwait, which steady_clock needs.
    const bool met =
        changed_.wait_until(lock, std::chrono::system_clock::now() + timeout, condition);
    lock.release();
    return met;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_->Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

}  // namespace penstock
