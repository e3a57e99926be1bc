#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "shard/comm/comm_options.h"
#include "shard/comm/futex_signal.h"

namespace penstock {

// The operations in which all ranks meet.
enum class Meeting : uint32_t { kNone, kAllReduceSum, kAllGather, kBroadcast };
const char* NameOf(Meeting meeting);

// What the ranks of a group share, in one block of memory: heap for threads, a mapped segment for
// processes. Every record is plain data or lock-free atomics, and there are no pointers in it, so
// each process may map it elsewhere, and one that dies leaves no lock behind. Counters only grow,
// so that a rank's progress is one atomic and a wait says who is missing.
class GroupBlock {
 public:
  // What a rank shows to the others in one round, beside its values. Ranks must agree about it.
  struct Offer {
    Meeting meeting = Meeting::kNone;
    int64_t rows = 0, cols = 0;  // of the whole matrix
  };
  struct alignas(64) Rank {            // one cache line: who sees the count has the offer too
    std::atomic<uint64_t> arrived{0};  // rounds it has reached
    std::array<Offer, 2> offers{};
    std::atomic<uint32_t> joined{0};
  };
  // The way from one rank to another.
  struct Channel {
    alignas(64) std::atomic<uint64_t> sent{0};
    alignas(64) std::atomic<uint64_t> received{0};
    int32_t from = 0, to = 0;
  };
  struct Slot {  // a sent matrix; its values follow on the next cache line
    int64_t rows = 0, cols = 0;
  };
  // Why a group has failed. Written by its owner before `failed` names it, so it is whole or
  // unseen.
  struct Failure {
    std::atomic<uint32_t> taken{0};  // of those who are no members, one may write
    int32_t code = 0;
    std::array<char, 1016> text{};
  };

  static int64_t Bytes(int size, const CommOptions& options);
  static constexpr int64_t kLeastBytes = 512;  // what Check() reads of a group of any kind
  // Most elements that a rank offers in one round.
  static int64_t PieceElements(const CommOptions& options);

  // A view of `memory`, which has Bytes(size, options), aligned to 64, and begins as zeros.
  GroupBlock(std::shared_ptr<void> memory, int size, const CommOptions& options);

  // Makes an empty group of the memory. Others may look as soon as it returns.
  void Format(uint64_t epoch);
  // FailedPrecondition, naming `what`, unless Format() was called for this epoch, size and options.
  // `bytes` is the size of `memory`: of another group, or of one that was cut short, no more than
  // kLeastBytes are read.
  absl::Status Check(const std::string& what, uint64_t epoch, int64_t bytes) const;

  int size() const { return size_; }
  const CommOptions& options() const { return options_; }
  FutexSignal& signal() const { return header().signal; }
  // 0, or 1 + the index of the failure() that counts.
  std::atomic<uint32_t>& failed() const { return header().failed; }
  Failure& failure(int index) const;  // of each rank; then one for who is no member
  Rank& rank(int rank) const;
  // A rank's values of a round: PieceElements() floats, or the bytes of any other type. Two take
  // turns: who writes the next but one has passed the next meeting, so everyone has read this one.
  float* values(int rank, uint64_t round) const;
  Channel* channel(int from, int to) const;  // null without such a link
  Slot& slot(const Channel& channel, uint64_t count) const;
  float* values(const Channel& channel, uint64_t count) const;

 private:
  struct Header {
    std::atomic<uint64_t> magic{0};  // written last
    uint64_t epoch = 0;
    int64_t max_elements = 0;
    int32_t size = 0, send_depth = 0, links = 0;
    alignas(64) std::atomic<uint32_t> failed{0};
    FutexSignal signal{};
  };
  // Where each part begins, in bytes.
  struct Layout {
    Layout(int size, const CommOptions& options);
    int64_t failures = 0, ranks = 0, values = 0, channels = 0, slots = 0, end = 0;
    int64_t piece = 0, slot = 0;  // bytes of each
  };

  template <typename Record>
  Record* At(int64_t offset) const {
    return reinterpret_cast<Record*>(static_cast<std::byte*>(memory_.get()) + offset);
  }
  Header& header() const { return *At<Header>(0); }
  int64_t SlotOffset(const Channel& channel, uint64_t count) const;

  std::shared_ptr<void> memory_;
  int size_;
  CommOptions options_;
  Layout layout_;
};

}  // namespace penstock
