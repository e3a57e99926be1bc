#include "shard/comm/local_comm.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shard/comm/local_group.h"

namespace penstock {
namespace {

void CopyMatrix(Matrix from, Matrix to) {
  const size_t bytes = static_cast<size_t>(from.cols) * SizeOf(from.dtype);
  for (int64_t row = 0; row < from.rows; ++row) std::memcpy(to.At(row, 0), from.At(row, 0), bytes);
}

// A packed matrix of the same extent as `like`.
Matrix Packed(void* data, Matrix like) {
  return {data, like.rows, like.cols, like.cols, like.dtype};
}

// sum[i] = parts[0][i] + parts[1][i] + ... for the elements [begin, end) of a packed matrix.
void SumInRankOrder(const LocalGroup& group, int64_t begin, int64_t end, float* sum) {
  const int64_t cols = group.offered(0).cols;
  for (int rank = 0; rank < group.size(); ++rank) {
    const Matrix part = group.offered(rank);
    for (int64_t at = begin; at < end;) {
      const int64_t row = at / cols, col = at % cols;
      const int64_t count = std::min(cols - col, end - at);
      const float* from = part.F32() + row * part.stride + col;
      for (int64_t i = 0; i < count; ++i) sum[at + i] = rank == 0 ? from[i] : sum[at + i] + from[i];
      at += count;
    }
  }
}

class LocalComm final : public Communicator {
 public:
  LocalComm(std::shared_ptr<LocalGroup> group, int rank) : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }

  void AllReduceSum(Matrix inout) override {
    if (size() == 1 || !Fits(inout, "AllReduceSum")) return;
    float* sum = group_->sum(round_++);
    group_->Offer(rank_, inout);
    if (!group_->Barrier(rank_, "AllReduceSum", &waited_)) return;
    const int64_t elements = inout.rows * inout.cols;
    SumInRankOrder(*group_, elements * rank_ / size(), elements * (rank_ + 1) / size(), sum);
    if (!group_->Barrier(rank_, "AllReduceSum", &waited_)) return;
    CopyMatrix(Packed(sum, inout), inout);
  }

  void AllGather(Matrix mine, Matrix all) override {
    if (size() == 1) return CopyMatrix(mine, all);
    group_->Offer(rank_, mine);
    if (!group_->Barrier(rank_, "AllGather", &waited_)) return;
    for (int rank = 0; rank < size(); ++rank)
      CopyMatrix(group_->offered(rank), all.Rows(rank * mine.rows, mine.rows));
    group_->Barrier(rank_, "AllGather", &waited_);  // until then the others read `mine`
  }

  void Broadcast(int root, Matrix inout) override {
    if (size() == 1) return;
    group_->Offer(rank_, inout);
    if (!group_->Barrier(rank_, "Broadcast", &waited_)) return;
    if (rank_ != root) CopyMatrix(group_->offered(root), inout);
    group_->Barrier(rank_, "Broadcast", &waited_);
  }

  void Send(Matrix from, int to_rank) override {
    if (!Fits(from, "Send")) return;
    LocalGroup::Channel& channel = group_->channel(rank_, to_rank);
    if (!group_->AwaitRoom(channel, rank_, to_rank, &waited_)) return;
    const uint64_t sent = channel.sent.load();
    Timed([&] { CopyMatrix(from, Packed(Slot(channel, sent), from)); });
    channel.sent.store(sent + 1);
    group_->Wake();
  }

  void Recv(int from_rank, Matrix to) override {
    if (!Fits(to, "Recv")) return;
    LocalGroup::Channel& channel = group_->channel(from_rank, rank_);
    if (!group_->AwaitMatrix(channel, rank_, from_rank, &waited_)) return;
    const uint64_t received = channel.received.load();
    Timed([&] { CopyMatrix(Packed(Slot(channel, received), to), to); });
    channel.received.store(received + 1);
    group_->Wake();
  }

  absl::Status status() const override { return group_->status(); }
  void Abort(const absl::Status& why) override { group_->Fail(why); }
  double transfer_seconds() const override { return transferred_; }
  double wait_seconds() const override { return waited_; }

 private:
  bool Fits(Matrix matrix, const char* operation) {
    if (group_->failed()) return false;
    if (matrix.rows * matrix.cols <= group_->options().max_elements) return true;
    group_->Fail(group_->Error(
        absl::StatusCode::kInvalidArgument, rank_, operation,
        absl::StrCat(matrix.rows, "x", matrix.cols, " exceeds the group's buffers of ",
                     group_->options().max_elements, " elements")));
    return false;
  }
  static void* Slot(LocalGroup::Channel& channel, uint64_t count) {
    return channel.slots[count % channel.slots.size()].data();
  }
  template <typename Move>
  void Timed(Move move) {
    const auto begin = std::chrono::steady_clock::now();
    move();
    transferred_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  const std::shared_ptr<LocalGroup> group_;
  const int rank_;
  uint64_t round_ = 0;  // sums so far
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
  const int64_t matrices = 2 + 2 * (size - 1) * options.send_depth;
  return matrices * options.max_elements * static_cast<int64_t>(sizeof(float));
}

}  // namespace penstock
