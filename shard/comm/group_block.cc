#include "shard/comm/group_block.h"

#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"

namespace penstock {
namespace {

static_assert(std::atomic<uint64_t>::is_always_lock_free);

constexpr uint64_t kMagic = 0x3130504f52475350;  // "PSGROP01": the layout's version is in it
constexpr int64_t kLine = 64;

int64_t WholeLines(int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

}  // namespace

const char* NameOf(Meeting meeting) {
  switch (meeting) {
    case Meeting::kNone: return "nothing";
    case Meeting::kAllReduceSum: return "AllReduceSum";
    case Meeting::kAllGather: return "AllGather";
    case Meeting::kBroadcast: return "Broadcast";
  }
  return "an unknown operation";
}

int64_t GroupBlock::PieceElements(const CommOptions& options) {
  constexpr int64_t kMost = 131072;  // 512 KiB: stays in caches; few enough waits per matrix
  return std::clamp<int64_t>(options.max_elements, 1, kMost);
}

GroupBlock::Layout::Layout(int size, const CommOptions& options) {
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  const auto links = static_cast<int64_t>(options.links.size());
  piece = size == 1 ? 0 : WholeLines(PieceElements(options) * kFloat);
  slot = kLine + WholeLines(options.max_elements * kFloat);
  static_assert(sizeof(Header) <= kLeastBytes);
  failures = WholeLines(sizeof(Header));
  ranks = failures + (size + 1) * WholeLines(sizeof(Failure));
  values = ranks + size * static_cast<int64_t>(sizeof(Rank));
  channels = values + 2 * size * piece;
  slots = channels + links * static_cast<int64_t>(sizeof(Channel));
  end = slots + links * options.send_depth * slot;
}

int64_t GroupBlock::Bytes(int size, const CommOptions& options) {
  return Layout(size, options).end;
}

GroupBlock::GroupBlock(std::shared_ptr<void> memory, int size, const CommOptions& options)
    : memory_(std::move(memory)), size_(size), options_(options), layout_(size, options) {}

void GroupBlock::Format(uint64_t epoch) {
  Header& header = *new (At<void>(0)) Header;
  header.epoch = epoch;
  header.max_elements = options_.max_elements;
  header.size = size_;
  header.send_depth = options_.send_depth;
  header.links = static_cast<int32_t>(options_.links.size());
  for (int i = 0; i <= size_; ++i) new (&failure(i)) Failure;
  for (int i = 0; i < size_; ++i) new (&rank(i)) Rank;
  auto* channel = At<Channel>(layout_.channels);
  for (const auto& [from, to] : options_.links) {
    new (channel) Channel;
    channel->from = from;
    channel->to = to;
    ++channel;
  }
  header.magic.store(kMagic);
}

absl::Status GroupBlock::Check(const std::string& what, uint64_t epoch, int64_t bytes) const {
  const auto differ = [&](const char* about, auto theirs, auto ours) {
    return absl::FailedPreconditionError(
        absl::StrCat(what, " is for ", about, " ", theirs, ", not ", ours));
  };
  const Header& made = header();
  const auto links = static_cast<int32_t>(options_.links.size());
  if (made.magic.load() != kMagic)
    return absl::FailedPreconditionError(
        absl::StrCat(what, " is not a whole group of this version's layout"));
  if (made.epoch != epoch) return differ("epoch", made.epoch, epoch);
  if (made.size != size_) return differ("a size of", made.size, size_);
  if (made.max_elements != options_.max_elements)
    return differ("matrices of", made.max_elements, options_.max_elements);
  if (made.send_depth != options_.send_depth)
    return differ("a send depth of", made.send_depth, options_.send_depth);
  if (made.links != links) return differ("a number of links of", made.links, links);
  if (const int64_t whole = Bytes(size_, options_); bytes != whole)
    return absl::FailedPreconditionError(absl::StrCat(what, " has ", bytes, " bytes, not ", whole));
  for (const auto& [from, to] : options_.links)
    if (channel(from, to) == nullptr)
      return absl::FailedPreconditionError(
          absl::StrCat(what, " has no link from rank ", from, " to rank ", to));
  return absl::OkStatus();
}

GroupBlock::Failure& GroupBlock::failure(int index) const {
  return *At<Failure>(layout_.failures + index * WholeLines(sizeof(Failure)));
}

GroupBlock::Rank& GroupBlock::rank(int rank) const {
  return *At<Rank>(layout_.ranks + rank * static_cast<int64_t>(sizeof(Rank)));
}

float* GroupBlock::values(int rank, uint64_t round) const {
  return At<float>(layout_.values + (2 * rank + static_cast<int64_t>(round % 2)) * layout_.piece);
}

GroupBlock::Channel* GroupBlock::channel(int from, int to) const {
  auto* const begin = At<Channel>(layout_.channels);
  auto* const end = begin + options_.links.size();
  auto* const found = std::find_if(
      begin, end, [&](const Channel& each) { return each.from == from && each.to == to; });
  return found == end ? nullptr : found;
}

int64_t GroupBlock::SlotOffset(const Channel& channel, uint64_t count) const {
  const int64_t index = &channel - At<Channel>(layout_.channels);
  const int64_t depth = options_.send_depth;
  return layout_.slots + (index * depth + static_cast<int64_t>(count) % depth) * layout_.slot;
}

GroupBlock::Slot& GroupBlock::slot(const Channel& channel, uint64_t count) const {
  return *At<Slot>(SlotOffset(channel, count));
}

float* GroupBlock::values(const Channel& channel, uint64_t count) const {
  return At<float>(SlotOffset(channel, count) + kLine);
}

}  // namespace penstock
