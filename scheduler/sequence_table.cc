#include "scheduler/sequence_table.h"

#include <algorithm>
#include <span>
#include <utility>

namespace penstock {
namespace {

// Where a sequence stands, or belongs, in a queue sorted by precedence.
template <typename Queue>
auto FindPlace(Queue& queue, const Precedence& precedence) {
  return std::lower_bound(
      queue.begin(), queue.end(), precedence,
      [](const auto& sequence, const Precedence& value) { return sequence->precedence < value; });
}

}  // namespace

SequenceTable::SequenceTable(int32_t blocks, int32_t block_size, int32_t slots, bool prefix_cache)
    : prefix_cache_(prefix_cache), pool_(blocks, block_size), cache_(blocks, block_size) {
  for (int32_t slot = slots; slot-- > 0;) free_slots_.push_back(slot);
  running_.reserve(static_cast<size_t>(slots));
}

void SequenceTable::Enqueue(std::unique_ptr<Sequence> sequence) {
  waiting_outstanding_ += sequence->outstanding();
  const auto place = FindPlace(waiting_, sequence->precedence);
  waiting_.insert(place, std::move(sequence));
}

int64_t SequenceTable::outstanding() const {
  int64_t tokens = waiting_outstanding_;
  for (const auto& sequence : running_) tokens += sequence->outstanding();
  return tokens;
}

int32_t SequenceTable::GrowthReserve() const {
  return static_cast<int32_t>(
      std::count_if(running_.begin(), running_.end(), [this](const auto& sequence) {
        const GenerateRequest& request = sequence->request;
        const int64_t longest = static_cast<int64_t>(request.prompt.size()) + request.max_tokens;
        return pool_.BlocksFor(longest) > static_cast<int32_t>(sequence->blocks.size());
      }));
}

// At least one token has to be computed: its row's logits are what is wanted.
PrefixCache::Match SequenceTable::FindPrefix(const Sequence& sequence) const {
  if (!prefix_cache_) return {.blocks = {}, .node = PrefixCache::Root(0)};
  return cache_.Find(sequence.request.cache_salt,
                     std::span(sequence.tokens).first(sequence.tokens.size() - 1));
}

bool SequenceTable::Fits(const Sequence& waiting, const PrefixCache::Match& prefix) const {
  if (free_slots_.empty()) return false;
  // Of the available blocks, those that are found leave too.
  const auto shared = std::count_if(prefix.blocks.begin(), prefix.blocks.end(),
                                    [this](int32_t block) { return pool_.held(block); });
  const int32_t wanted = pool_.BlocksFor(std::ssize(waiting.tokens)) - static_cast<int32_t>(shared);
  return wanted <= pool_.available() && wanted + GrowthReserve() <= pool_.available();
}

Sequence* SequenceTable::Start(size_t index) {
  if (index >= waiting_.size()) return nullptr;
  PrefixCache::Match prefix = FindPrefix(*waiting_[index]);
  if (!Fits(*waiting_[index], prefix)) return nullptr;

  std::unique_ptr<Sequence> owned = TakeWaiting(index);
  Sequence& sequence = *owned;
  sequence.slot = free_slots_.back();
  free_slots_.pop_back();
  running_.insert(FindPlace(running_, sequence.precedence), std::move(owned));
  for (const int32_t block : prefix.blocks) pool_.Share(block);
  sequence.blocks = std::move(prefix.blocks);
  sequence.indexed = static_cast<int32_t>(sequence.blocks.size());
  sequence.computed = sequence.indexed * pool_.block_size();
  sequence.prefix = prefix.node;
  if (sequence.times.first_scheduled == absl::InfinitePast())
    sequence.times.cached_tokens =
        std::min(sequence.computed, static_cast<int32_t>(sequence.request.prompt.size()));
  Reserve(sequence, static_cast<int32_t>(sequence.tokens.size()));
  return &sequence;
}

bool SequenceTable::WillShare(const Sequence& waiting) const {
  if (!prefix_cache_) return false;
  const std::span mine(waiting.tokens);
  const auto size = static_cast<size_t>(pool_.block_size());
  return std::any_of(running_.begin(), running_.end(), [&](const auto& sequence) {
    if (sequence->decoding() || sequence->request.cache_salt != waiting.request.cache_salt)
      return false;
    const size_t next = (static_cast<size_t>(sequence->indexed) + 1) * size;  // its next full block
    if (next >= mine.size() || next > sequence->tokens.size()) return false;
    return std::ranges::equal(mine.first(next), std::span(sequence->tokens).first(next));
  });
}

bool SequenceTable::Reserve(Sequence& sequence, int32_t tokens) {
  const int32_t missing = pool_.BlocksFor(tokens) - static_cast<int32_t>(sequence.blocks.size());
  if (missing > pool_.available()) return false;
  for (int32_t i = 0; i < missing; ++i) {
    sequence.blocks.push_back(*pool_.Allocate());
    cache_.Forget(sequence.blocks.back());
  }
  return true;
}

void SequenceTable::Advance(Sequence& sequence, int32_t tokens) {
  sequence.computed += tokens;
  if (!prefix_cache_) return;
  const auto size = static_cast<size_t>(pool_.block_size());
  for (; (sequence.indexed + 1) * pool_.block_size() <= sequence.computed; ++sequence.indexed) {
    const auto block = static_cast<size_t>(sequence.indexed);
    sequence.prefix =
        cache_.Insert(sequence.prefix, std::span(sequence.tokens).subspan(block * size, size),
                      sequence.blocks[block]);
  }
}

// The last blocks first: a prefix is worth more than what follows it.
void SequenceTable::GiveBack(Sequence& sequence) {
  for (; !sequence.blocks.empty(); sequence.blocks.pop_back()) {
    const int32_t block = sequence.blocks.back();
    const bool keep = sequence.request.keep_cached && cache_.Knows(block);
    pool_.Release(block, keep);
    if (!keep && !pool_.held(block)) cache_.Forget(block);
  }
  free_slots_.push_back(sequence.slot);
  sequence.slot = -1;
  sequence.slot_assigned = false;
  sequence.computed = 0;
  sequence.indexed = 0;
}

std::unique_ptr<Sequence> SequenceTable::TakeRunning(const Sequence& sequence) {
  const auto place = FindPlace(running_, sequence.precedence);
  std::unique_ptr<Sequence> owned = std::move(*place);
  running_.erase(place);
  return owned;
}

std::unique_ptr<Sequence> SequenceTable::TakeWaiting(size_t index) {
  const auto place = waiting_.begin() + static_cast<int64_t>(index);
  std::unique_ptr<Sequence> owned = std::move(*place);
  waiting_.erase(place);
  waiting_outstanding_ -= owned->outstanding();
  return owned;
}

// (What only pads a batch has nothing to come back for.)
void SequenceTable::Preempt(Sequence& sequence) {
  std::unique_ptr<Sequence> owned = TakeRunning(sequence);
  GiveBack(sequence);
  ++sequence.times.preemptions;
  if (!sequence.padding) Enqueue(std::move(owned));
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
    if (!sequence->padding) Enqueue(std::move(sequence));
  }
  cache_.Clear();
  pool_.ForgetKept();
}

}  // namespace penstock
