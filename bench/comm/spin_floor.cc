#include "bench/comm/spin_floor.h"

#include <sys/mman.h>

#include <cstring>
#include <new>
#include <vector>

#include "bench/comm/timing.h"

namespace penstock {

SpinFloor::SpinFloor(int64_t elements) : elements_(elements) {
  const size_t bytes = sizeof(Shared) + 4 * static_cast<size_t>(elements) * sizeof(float);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = {memory, [bytes](void* address) { munmap(address, bytes); }};
  new (memory) Shared;
}

void SpinFloor::Await(const Counter& counter, uint64_t value) const {
  while (counter.value.load(std::memory_order_acquire) < value) {
  }
}

float* SpinFloor::Values(int rank, uint64_t round) const {
  auto* const values = reinterpret_cast<float*>(static_cast<Shared*>(memory_.get()) + 1);
  return values + (2 * rank + static_cast<int64_t>(round % 2)) * elements_;
}

double SpinFloor::Send(int rank, int count) {
  auto& ball = static_cast<Shared*>(memory_.get())->ball;
  const size_t bytes = static_cast<size_t>(elements_) * sizeof(float);
  std::vector<float> mine(static_cast<size_t>(elements_));
  uint64_t turn = ball[rank].value;
  const auto send = [&] {
    std::memcpy(Values(rank, turn), mine.data(), bytes);
    ball[rank].value.store(turn, std::memory_order_release);
  };
  const auto receive = [&] {
    Await(ball[1 - rank], turn);
    std::memcpy(mine.data(), Values(1 - rank, turn), bytes);
  };
  return TimeSteps(count,
                   [&] {
                     ++turn;
                     if (rank == 0) send();
                     receive();
                     if (rank == 1) send();
                   }) /
         2;
}

void SpinFloor::Reduce(int rank, uint64_t round, float* inout) {
  auto& arrived = static_cast<Shared*>(memory_.get())->arrived;
  std::memcpy(Values(rank, round), inout, static_cast<size_t>(elements_) * sizeof(float));
  arrived[rank].value.store(round + 1, std::memory_order_release);
  Await(arrived[1 - rank], round + 1);
  const float* const a = Values(0, round);
  const float* const b = Values(1, round);
  float* const __restrict sum = inout;
  for (int64_t i = 0; i < elements_; ++i) sum[i] = a[i] + b[i];
}

double SpinFloor::AllReduce(int rank, int count) {
  std::vector<float> inout(static_cast<size_t>(elements_));
  uint64_t round = static_cast<Shared*>(memory_.get())->arrived[rank].value;
  return TimeSteps(count, [&] { Reduce(rank, round++, inout.data()); });
}

}  // namespace penstock
