#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace penstock {

// What two ranks that share memory cannot do without, and nothing else: no bound, no check, no
// error. In memory that a child process shares, so it may be used by RunThreads() and
// RunProcesses().
class SpinFloor {
 public:
  explicit SpinFloor(int64_t elements);

  // Seconds of one operation; both ranks call it, with the same count.
  // `elements` floats copied in, a count raised, copied out: one way of going there and back.
  double Send(int rank, int count);
  // `elements` floats copied in, one meeting, both ranks add up both.
  double AllReduce(int rank, int count);

 private:
  struct alignas(128) Counter {
    std::atomic<uint64_t> value{0};
  };
  struct Shared {
    Counter arrived[2], ball[2];
  };
  void Await(const Counter& counter, uint64_t value) const;
  float* Values(int rank, uint64_t round) const;
  void Reduce(int rank, uint64_t round, float* inout);

  const int64_t elements_;
  std::shared_ptr<void> memory_;
};

}  // namespace penstock
