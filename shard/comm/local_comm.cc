#include "shard/comm/local_comm.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shard/comm/local_group.h"

namespace penstock {
namespace {

// Calls visit(address, offset, count) for each run of neighbouring elements among [begin, end) of a
// matrix in row-major order; offset counts from `begin`.
template <typename Visit>
void ForEachRun(Matrix matrix, int64_t begin, int64_t end, Visit visit) {
  for (int64_t at = begin; at < end;) {
    const int64_t row = at / matrix.cols, col = at % matrix.cols;
    const int64_t left = matrix.stride == matrix.cols ? end - at : matrix.cols - col;
    const int64_t count = std::min(left, end - at);
    visit(matrix.At(row, col), at - begin, count);
    at += count;
  }
}

void Pack(Matrix from, int64_t begin, int64_t end, void* to) {
  const auto size = static_cast<int64_t>(SizeOf(from.dtype));
  ForEachRun(from, begin, end, [&](const void* run, int64_t offset, int64_t count) {
    std::memcpy(static_cast<std::byte*>(to) + offset * size, run,
                static_cast<size_t>(count * size));
  });
}

void Unpack(const void* from, int64_t begin, int64_t end, Matrix to) {
  const auto size = static_cast<int64_t>(SizeOf(to.dtype));
  ForEachRun(to, begin, end, [&](void* run, int64_t offset, int64_t count) {
    std::memcpy(run, static_cast<const std::byte*>(from) + offset * size,
                static_cast<size_t>(count * size));
  });
}

void AddTwo(const float* a, const float* b, int64_t count, float* __restrict sum) {
  for (int64_t i = 0; i < count; ++i) sum[i] = a[i] + b[i];
}

void AddTo(const float* a, int64_t count, float* __restrict sum) {
  for (int64_t i = 0; i < count; ++i) sum[i] += a[i];
}

class LocalComm final : public Communicator {
 public:
  LocalComm(std::shared_ptr<LocalGroup> group, int rank) : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }

  // Every rank adds up everything: for a few ranks that is as much memory traffic as adding a part
  // and fetching the others', with half the waiting.
  void AllReduceSum(Matrix inout) override {
    constexpr const char* kOperation = "AllReduceSum";
    if (size() == 1) return;
    if (!Require(inout.dtype == DType::kF32, kOperation, "only f32 can be added up") ||
        !Fits(inout, kOperation))
      return;
    InPieces(kOperation, inout, true, [&](uint64_t round, int64_t begin, int64_t end) {
      ForEachRun(inout, begin, end, [&](void* run, int64_t offset, int64_t count) {
        SumInRankOrder(round, offset, count, static_cast<float*>(run));
      });
    });
  }

  void AllGather(Matrix mine, Matrix all) override {
    constexpr const char* kOperation = "AllGather";
    if (!Require(all.rows == size() * mine.rows && all.cols == mine.cols && all.dtype == mine.dtype,
                 kOperation, "the matrices do not match"))
      return;
    if (size() == 1) {
      return ForEachRun(mine, 0, mine.rows * mine.cols, [&](void* run, int64_t at, int64_t count) {
        Unpack(run, at, at + count, all);
      });
    }
    InPieces(kOperation, mine, true, [&](uint64_t round, int64_t begin, int64_t end) {
      for (int rank = 0; rank < size(); ++rank)
        Unpack(Values(rank, round), begin, end, all.Rows(rank * mine.rows, mine.rows));
    });
  }

  void Broadcast(int root, Matrix inout) override {
    constexpr const char* kOperation = "Broadcast";
    if (!Require(root >= 0 && root < size(), kOperation, absl::StrCat("no rank ", root))) return;
    if (size() == 1) return;
    InPieces(kOperation, inout, rank_ == root, [&](uint64_t round, int64_t begin, int64_t end) {
      if (rank_ != root) Unpack(Values(root, round), begin, end, inout);
    });
  }

  void Send(Matrix from, int to_rank) override {
    LocalGroup::Channel* channel = Link(rank_, to_rank, from, "Send");
    if (channel == nullptr || !group_->AwaitRoom(*channel, rank_, to_rank, &waited_)) return;
    const uint64_t sent = channel->sent.load();
    LocalGroup::Channel::Slot& slot = channel->slot(sent);
    slot.rows = from.rows;
    slot.cols = from.cols;
    Timed([&] { Pack(from, 0, from.rows * from.cols, slot.values.data()); });
    channel->sent.store(sent + 1);
    group_->Wake();
  }

  void Recv(int from_rank, Matrix to) override {
    LocalGroup::Channel* channel = Link(from_rank, rank_, to, "Recv");
    if (channel == nullptr || !group_->AwaitMatrix(*channel, rank_, from_rank, &waited_)) return;
    const uint64_t received = channel->received.load();
    LocalGroup::Channel::Slot& slot = channel->slot(received);
    if (!Require(slot.rows == to.rows && slot.cols == to.cols, "Recv",
                 absl::StrCat("rank ", from_rank, " sent ", slot.rows, "x", slot.cols,
                              ", expected ", to.rows, "x", to.cols)))
      return;
    Timed([&] { Unpack(slot.values.data(), 0, to.rows * to.cols, to); });
    channel->received.store(received + 1);
    group_->Wake();
  }

  absl::Status status() const override { return group_->status(); }
  void Abort(const absl::Status& why) override {
    group_->Fail(why.ok() ? absl::CancelledError("aborted") : why);
  }
  double transfer_seconds() const override { return transferred_; }
  double wait_seconds() const override { return waited_; }

 private:
  const float* Values(int rank, uint64_t round) const {
    return group_->offer(rank, round).values.data();
  }

  // Moves `matrix` through the group's buffers: packs a piece if this rank `offers` it, waits for
  // the others' and calls take(round, begin, end).
  template <typename Take>
  void InPieces(const char* operation, Matrix matrix, bool offers, Take take) {
    const int64_t elements = matrix.rows * matrix.cols;
    const int64_t piece = LocalGroup::PieceElements(group_->options());
    for (int64_t begin = 0; begin < elements && !group_->failed(); begin += piece) {
      const int64_t end = std::min(begin + piece, elements);
      const uint64_t round = round_++;
      LocalGroup::Offer& mine = group_->offer(rank_, round);
      mine.operation = operation;
      mine.rows = matrix.rows;
      mine.cols = matrix.cols;
      if (offers) Pack(matrix, begin, end, mine.values.data());
      if (!group_->Exchange(rank_, round, &waited_)) return;
      take(round, begin, end);
    }
  }

  void SumInRankOrder(uint64_t round, int64_t offset, int64_t count, float* sum) const {
    AddTwo(Values(0, round) + offset, Values(1, round) + offset, count, sum);
    for (int rank = 2; rank < size(); ++rank) AddTo(Values(rank, round) + offset, count, sum);
  }

  // False when the group has failed, be it for this.
  bool Require(bool condition, const char* operation, const std::string& otherwise) {
    if (!condition) group_->Fail(absl::StatusCode::kInvalidArgument, rank_, operation, otherwise);
    return !group_->failed();
  }
  bool Fits(Matrix matrix, const char* operation) {
    const int64_t most = group_->options().max_elements;
    return matrix.rows * matrix.cols <= most
               ? !group_->failed()
               : Require(false, operation,
                         absl::StrCat(matrix.rows, "x", matrix.cols,
                                      " exceeds the group's buffers of ", most, " elements"));
  }
  LocalGroup::Channel* Link(int from, int to, Matrix matrix, const char* operation) {
    if (!Fits(matrix, operation)) return nullptr;
    LocalGroup::Channel* channel = group_->channel(from, to);
    if (channel == nullptr)
      Require(false, operation, absl::StrCat("no link from rank ", from, " to rank ", to));
    return channel;
  }

  template <typename Move>
  void Timed(Move move) {
    const auto begin = std::chrono::steady_clock::now();
    move();
    transferred_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  const std::shared_ptr<LocalGroup> group_;
  const int rank_;
  uint64_t round_ = 0;  // exchanges so far
  double waited_ = 0, transferred_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> MakeLocalGroup(const std::string& name, int size,
                                                          const LocalCommOptions& options) {
  auto group = std::make_shared<LocalGroup>(name, size, options);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank) ranks.push_back(std::make_unique<LocalComm>(group, rank));
  return ranks;
}

int64_t LocalGroupBytes(int size, const LocalCommOptions& options) {
  if (size == 1) return 0;
  const auto links = static_cast<int64_t>(options.links.size());
  const int64_t elements = 2 * size * LocalGroup::PieceElements(options) +
                           links * options.send_depth * options.max_elements;
  return elements * static_cast<int64_t>(sizeof(float));
}

}  // namespace penstock
