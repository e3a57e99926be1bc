#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "scheduler/kv_block_pool.h"
#include "scheduler/sequence.h"

namespace penstock {

// Every sequence of a scheduler, by stage of life, and what it holds:
//   waiting   no slot, no blocks; in order of arrival
//   running   a slot, and blocks for at least all tokens it had when it (re)started; in order
//   retiring  ended, but a step in flight still names its slot and blocks
// The mechanics only: who starts, runs and yields is the planner's choice. Not thread-safe.
class SequenceTable {
 public:
  SequenceTable(int32_t blocks, int32_t block_size, int32_t slots);

  const std::deque<std::unique_ptr<Sequence>>& waiting() const { return waiting_; }
  const std::vector<std::unique_ptr<Sequence>>& running() const { return running_; }
  const KvBlockPool& pool() const { return pool_; }
  int32_t free_slots() const { return static_cast<int32_t>(free_slots_.size()); }
  bool empty() const { return waiting_.empty() && running_.empty() && retiring_.empty(); }

  void Enqueue(std::unique_ptr<Sequence> sequence);  // among the waiting, by age

  // Starts the oldest waiting sequence: a slot, and blocks for all its tokens, so that prefill
  // never stalls half-way. Leaves a block for each running sequence that will still grow; otherwise
  // the newcomer would soon be preempted again. Null when it does not fit now.
  Sequence* StartNext();
  // Gives a running sequence the blocks that hold `tokens` tokens, or none and false.
  bool Reserve(Sequence& sequence, int32_t tokens);
  // A running sequence without a step in flight gives everything back and waits again.
  void Preempt(Sequence& sequence);
  // A running sequence has ended. It is destroyed unless a step in flight names it.
  void Retire(Sequence& sequence);
  // Destroys the retiring sequences that no step names any more.
  void Reap();
  std::unique_ptr<Sequence> TakeWaiting(size_t index);
  // The executor has lost its KV cache and its steps: what ran waits again, in its old order.
  void ForgetSteps();

 private:
  std::unique_ptr<Sequence> TakeRunning(const Sequence& sequence);
  void GiveBack(Sequence& sequence);
  int32_t GrowthReserve() const;

  KvBlockPool pool_;
  std::vector<int32_t> free_slots_;
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::vector<std::unique_ptr<Sequence>> running_;
  std::vector<std::unique_ptr<Sequence>> retiring_;
};

}  // namespace penstock
