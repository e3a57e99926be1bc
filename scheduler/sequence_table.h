#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "scheduler/kv_block_pool.h"
#include "scheduler/prefix_cache.h"
#include "scheduler/sequence.h"

namespace penstock {

// Every sequence of a scheduler, by stage of life, and what it holds:
//   waiting   no slot, no blocks; in order of precedence
//   running   a slot, and blocks for at least all tokens it had when it (re)started; in order
//   retiring  ended, but a step in flight still names its slot and blocks
// The mechanics only: who starts, runs and yields is the planner's choice. Not thread-safe.
class SequenceTable {
 public:
  SequenceTable(int32_t blocks, int32_t block_size, int32_t slots, bool prefix_cache);

  const std::deque<std::unique_ptr<Sequence>>& waiting() const { return waiting_; }
  const std::vector<std::unique_ptr<Sequence>>& running() const { return running_; }
  const KvBlockPool& pool() const { return pool_; }
  int32_t free_slots() const { return static_cast<int32_t>(free_slots_.size()); }
  bool empty() const { return waiting_.empty() && running_.empty() && retiring_.empty(); }
  int64_t outstanding() const;  // Sequence::outstanding() of all that wait or run

  void Enqueue(std::unique_ptr<Sequence> sequence);  // among the waiting, by precedence

  // Whether a slot and enough blocks are there for Start() now.
  bool Fits(const Sequence& waiting) const { return Fits(waiting, FindPrefix(waiting)); }
  // Starts a waiting sequence: a slot, and blocks for all its tokens, so that prefill never stalls
  // half-way; of these, what the prefix cache knows need not be computed. Leaves a block for each
  // running sequence that will still grow; otherwise the newcomer would soon be preempted again.
  // Null when it does not fit now.
  Sequence* Start(size_t index);
  // Whether a running sequence is about to compute the block that this waiting one would need next,
  // so that it pays to start later and share it.
  bool WillShare(const Sequence& waiting) const;
  // Gives a running sequence the blocks that hold `tokens` tokens, or none and false.
  bool Reserve(Sequence& sequence, int32_t tokens);
  // A launched step computes these tokens of a running sequence. Steps run in order, so from now on
  // other sequences may read the blocks that this fills.
  void Advance(Sequence& sequence, int32_t tokens);
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
  PrefixCache::Match FindPrefix(const Sequence& sequence) const;
  bool Fits(const Sequence& waiting, const PrefixCache::Match& prefix) const;
  void GiveBack(Sequence& sequence);
  int32_t GrowthReserve() const;

  const bool prefix_cache_;
  KvBlockPool pool_;
  PrefixCache cache_;
  std::vector<int32_t> free_slots_;
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::vector<std::unique_ptr<Sequence>> running_;
  std::vector<std::unique_ptr<Sequence>> retiring_;
  int64_t waiting_outstanding_ = 0;
};

}  // namespace penstock
