#include "shard/comm/group_comm.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "shard/comm/group_member.h"
#include "shard/comm/matrix_copy.h"

namespace penstock {
namespace {

class GroupComm final : public Communicator {
 public:
  GroupComm(GroupBlock block, std::string name, int rank, const CommOptions& options)
      : member_(std::move(block), std::move(name), rank, options),
        terms_(static_cast<size_t>(member_.size())) {}

  int rank() const override { return member_.rank(); }
  int size() const override { return member_.size(); }

  void AllReduceSum(Matrix inout) override {
    // Below, one meeting less is worth more than the adding and copying that is saved.
    constexpr int64_t kSliced = 4096;
    if (size() == 1) return;
    const char* const operation = NameOf(Meeting::kAllReduceSum);
    if (inout.dtype != DType::kF32) return Refuse(operation, "only f32 can be added up");
    if (!Fits(inout, operation)) return;
    InPieces(inout, [&](int64_t begin, int64_t end) {
      return end - begin < kSliced ? SumWhole(inout, begin, end) : SumSlices(inout, begin, end);
    });
  }

  void AllGather(Matrix mine, Matrix all) override {
    if (all.rows != size() * mine.rows || all.cols != mine.cols || all.dtype != mine.dtype)
      return Refuse(NameOf(Meeting::kAllGather), "the matrices do not match");
    if (size() == 1) {
      return ForEachRun(mine, 0, mine.rows * mine.cols, [&](void* run, int64_t at, int64_t count) {
        Unpack(run, at, at + count, all);
      });
    }
    InPieces(mine, [&](int64_t begin, int64_t end) {
      Pack(mine, begin, end, Values(rank(), member_.round()));
      if (!Meet(Meeting::kAllGather, mine)) return;
      for (int each = 0; each < size(); ++each)
        Unpack(Values(each, member_.round() - 1), begin, end,
               all.Rows(each * mine.rows, mine.rows));
    });
  }

  void Broadcast(int root, Matrix inout) override {
    const Meeting meeting = Meeting::kBroadcast;
    if (root < 0 || root >= size()) return Refuse(NameOf(meeting), absl::StrCat("no rank ", root));
    if (size() == 1) return;
    InPieces(inout, [&](int64_t begin, int64_t end) {
      if (rank() == root) Pack(inout, begin, end, Values(root, member_.round()));
      if (Meet(meeting, inout) && rank() != root)
        Unpack(Values(root, member_.round() - 1), begin, end, inout);
    });
  }

  void Send(Matrix from, int to_rank) override {
    GroupBlock::Channel* channel = Link(rank(), to_rank, from, "Send");
    if (channel == nullptr || !member_.AwaitRoom(*channel)) return;
    const uint64_t sent = channel->sent.load();
    GroupBlock::Slot& slot = member_.block().slot(*channel, sent);
    slot.rows = from.rows;
    slot.cols = from.cols;
    Timed([&] { Pack(from, 0, from.rows * from.cols, member_.block().values(*channel, sent)); });
    channel->sent.store(sent + 1);
    member_.Wake();
  }

  void Recv(int from_rank, Matrix to) override {
    GroupBlock::Channel* channel = Link(from_rank, rank(), to, "Recv");
    if (channel == nullptr || !member_.AwaitMatrix(*channel)) return;
    const uint64_t received = channel->received.load();
    const GroupBlock::Slot& slot = member_.block().slot(*channel, received);
    if (slot.rows != to.rows || slot.cols != to.cols)
      return Refuse("Recv", absl::StrCat("rank ", from_rank, " sent ", slot.rows, "x", slot.cols,
                                         ", expected ", to.rows, "x", to.cols));
    Timed([&] { Unpack(member_.block().values(*channel, received), 0, to.rows * to.cols, to); });
    channel->received.store(received + 1);
    member_.Wake();
  }

  absl::Status status() const override { return member_.status(); }
  void Abort(const absl::Status& why) override {
    member_.Fail(why.ok() ? absl::CancelledError("aborted") : why);
  }
  double transfer_seconds() const override { return transferred_; }
  double wait_seconds() const override { return member_.waited(); }

 private:
  float* Values(int rank, uint64_t round) const { return member_.block().values(rank, round); }
  bool Meet(Meeting meeting, Matrix matrix) {
    return member_.Meet({meeting, matrix.rows, matrix.cols});
  }

  // Calls move(begin, end) for ranges of the matrix's elements that fit the group's buffers.
  template <typename Move>
  void InPieces(Matrix matrix, Move move) {
    const int64_t elements = matrix.rows * matrix.cols;
    const int64_t piece = GroupBlock::PieceElements(member_.options());
    for (int64_t begin = 0; begin < elements && !member_.failed(); begin += piece)
      move(begin, std::min(begin + piece, elements));
  }

  // Sums of [begin, end) of this round's values, which begin at element `origin` of the matrix.
  void Sum(Matrix inout, int64_t origin, int64_t begin, int64_t end, uint64_t round) {
    ForEachRun(inout, begin, end, [&](void* run, int64_t offset, int64_t count) {
      for (int each = 0; each < size(); ++each)
        terms_[static_cast<size_t>(each)] = Values(each, round) + (begin - origin) + offset;
      SumInOrder(terms_.data(), size(), count, static_cast<float*>(run));
    });
  }

  // One meeting; every rank adds up everything.
  void SumWhole(Matrix inout, int64_t begin, int64_t end) {
    Pack(inout, begin, end, Values(rank(), member_.round()));
    if (Meet(Meeting::kAllReduceSum, inout)) Sum(inout, begin, begin, end, member_.round() - 1);
  }

  // Two meetings; every rank adds up its slice and fetches the others'.
  void SumSlices(Matrix inout, int64_t begin, int64_t end) {
    const uint64_t round = member_.round();
    const auto slice = [&](int each) {  // where rank `each`'s begins: at a cache line's beginning
      return each == size() ? end : begin + (end - begin) * each / size() / 16 * 16;
    };
    const int64_t mine = slice(rank()), mine_end = slice(rank() + 1);
    Pack(inout, begin, end, Values(rank(), round));
    if (!Meet(Meeting::kAllReduceSum, inout)) return;
    Sum(inout, begin, mine, mine_end, round);
    Pack(inout, mine, mine_end, Values(rank(), round + 1) + (mine - begin));
    if (!Meet(Meeting::kAllReduceSum, inout)) return;
    for (int each = 0; each < size(); ++each)
      if (each != rank())
        Unpack(Values(each, round + 1) + (slice(each) - begin), slice(each), slice(each + 1),
               inout);
  }

  void Refuse(const char* operation, const std::string& why) {
    member_.Fail(absl::StatusCode::kInvalidArgument, operation, why);
  }
  // False when the group has failed, be it for this.
  bool Fits(Matrix matrix, const char* operation) {
    const int64_t most = member_.options().max_elements;
    if (matrix.rows * matrix.cols > most)
      Refuse(operation, absl::StrCat(matrix.rows, "x", matrix.cols,
                                     " exceeds the group's buffers of ", most, " elements"));
    return !member_.failed();
  }
  GroupBlock::Channel* Link(int from, int to, Matrix matrix, const char* operation) {
    if (!Fits(matrix, operation)) return nullptr;
    GroupBlock::Channel* channel = member_.block().channel(from, to);
    if (channel == nullptr)
      Refuse(operation, absl::StrCat("no link from rank ", from, " to rank ", to));
    return channel;
  }

  template <typename Move>
  void Timed(Move move) {
    const auto begin = std::chrono::steady_clock::now();
    move();
    transferred_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  GroupMember member_;
  std::vector<const float*> terms_;  // of a sum, by rank
  double transferred_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> MakeGroupComm(GroupBlock block, const std::string& name, int rank,
                                            const CommOptions& options) {
  return std::make_unique<GroupComm>(std::move(block), name, rank, options);
}

}  // namespace penstock
