#include "scheduler/sequence_table.h"

#include <algorithm>
#include <utility>

namespace penstock {
namespace {

// Where a sequence of age `order` stands, or belongs, in a queue sorted by age.
template <typename Queue>
auto FindPlace(Queue& queue, uint64_t order) {
  return std::lower_bound(
      queue.begin(), queue.end(), order,
      [](const auto& sequence, uint64_t value) { return sequence->order < value; });
}

}  // namespace

SequenceTable::SequenceTable(int32_t blocks, int32_t block_size, int32_t slots)
    : pool_(blocks, block_size) {
  for (int32_t slot = slots; slot-- > 0;) free_slots_.push_back(slot);
  running_.reserve(static_cast<size_t>(slots));
}

void SequenceTable::Enqueue(std::unique_ptr<Sequence> sequence) {
  const auto place = FindPlace(waiting_, sequence->order);
  waiting_.insert(place, std::move(sequence));
}

int32_t SequenceTable::GrowthReserve() const {
  return static_cast<int32_t>(
      std::count_if(running_.begin(), running_.end(), [this](const auto& sequence) {
        const GenerateRequest& request = sequence->request;
        const int64_t longest = static_cast<int64_t>(request.prompt.size()) + request.max_tokens;
        return pool_.BlocksFor(longest) > static_cast<int32_t>(sequence->blocks.size());
      }));
}

Sequence* SequenceTable::StartNext() {
  if (waiting_.empty() || free_slots_.empty()) return nullptr;
  const auto length = static_cast<int32_t>(waiting_.front()->tokens.size());
  const int32_t wanted = pool_.BlocksFor(length);
  if (wanted > pool_.available() || wanted + GrowthReserve() > pool_.available()) return nullptr;

  std::unique_ptr<Sequence> owned = std::move(waiting_.front());
  waiting_.pop_front();
  Sequence& sequence = *owned;
  sequence.slot = free_slots_.back();
  free_slots_.pop_back();
  running_.insert(FindPlace(running_, sequence.order), std::move(owned));
  Reserve(sequence, length);
  return &sequence;
}

bool SequenceTable::Reserve(Sequence& sequence, int32_t tokens) {
  const int32_t missing = pool_.BlocksFor(tokens) - static_cast<int32_t>(sequence.blocks.size());
  if (missing > pool_.available()) return false;
  for (int32_t i = 0; i < missing; ++i) sequence.blocks.push_back(*pool_.Allocate());
  return true;
}

void SequenceTable::GiveBack(Sequence& sequence) {
  for (int32_t block : sequence.blocks) pool_.Release(block);
  sequence.blocks.clear();
  free_slots_.push_back(sequence.slot);
  sequence.slot = -1;
  sequence.slot_assigned = false;
  sequence.computed = 0;
}

std::unique_ptr<Sequence> SequenceTable::TakeRunning(const Sequence& sequence) {
  const auto place = FindPlace(running_, sequence.order);
  std::unique_ptr<Sequence> owned = std::move(*place);
  running_.erase(place);
  return owned;
}

std::unique_ptr<Sequence> SequenceTable::TakeWaiting(size_t index) {
  const auto place = waiting_.begin() + static_cast<int64_t>(index);
  std::unique_ptr<Sequence> owned = std::move(*place);
  waiting_.erase(place);
  return owned;
}

void SequenceTable::Preempt(Sequence& sequence) {
  std::unique_ptr<Sequence> owned = TakeRunning(sequence);
  GiveBack(sequence);
  ++sequence.times.preemptions;
  Enqueue(std::move(owned));
}

void SequenceTable::Retire(Sequence& sequence) {
  std::unique_ptr<Sequence> owned = TakeRunning(sequence);
  if (sequence.in_flight > 0) {
    retiring_.push_back(std::move(owned));
  } else {
    GiveBack(sequence);
  }
}

void SequenceTable::Reap() {
  std::erase_if(retiring_, [this](const auto& sequence) {
    if (sequence->in_flight > 0) return false;
    GiveBack(*sequence);
    return true;
  });
}

void SequenceTable::ForgetSteps() {
  for (auto& sequence : retiring_) sequence->in_flight = 0;
  Reap();
  while (!running_.empty()) {
    std::unique_ptr<Sequence> sequence = std::move(running_.back());
    running_.pop_back();
    sequence->in_flight = 0;
    GiveBack(*sequence);
    Enqueue(std::move(sequence));
  }
}

}  // namespace penstock
