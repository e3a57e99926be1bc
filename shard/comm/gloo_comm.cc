#include "shard/comm/gloo_comm.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shard/base/detached_status.h"
#include "shard/base/mutex.h"
#include "shard/base/status_macros.h"
#include "shard/comm/gloo_mesh.h"
#include "shard/comm/matrix_copy.h"

namespace penstock {
namespace {

constexpr int64_t kPiece = 1 << 18;  // elements of one message
constexpr int64_t kSliced = 16384;   // below, a round trip less is worth more than the bytes saved

enum Operation : uint32_t { kSum = 1, kSlice, kSummed, kGather, kBroadcast, kMatrix };
const char* NameOf(uint32_t operation) {
  constexpr const char* kNames[] = {"nothing",   "AllReduceSum", "AllReduceSum", "AllReduceSum",
                                    "AllGather", "Broadcast",    "Send"};
  return operation < std::size(kNames) ? kNames[operation] : "something unknown";
}

int64_t PieceElements(const CommOptions& options) {
  return std::clamp<int64_t>(options.max_elements, 1, kPiece);
}

class GlooComm final : public Communicator {
 public:
  GlooComm(std::unique_ptr<GlooMesh> mesh, std::string group, int rank, int size,
           CommOptions options)
      : mesh_(std::move(mesh)),
        name_(std::move(group)),
        rank_(rank),
        size_(size),
        options_(std::move(options)),
        own_(static_cast<size_t>(PieceElements(options_))),
        terms_(static_cast<size_t>(size)) {}

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void AllReduceSum(Matrix inout) override {
    if (size_ == 1) return;
    if (inout.dtype != DType::kF32) return Refuse("AllReduceSum", "only f32 can be added up");
    if (!Fits(inout, "AllReduceSum")) return;
    InPieces(inout, [&](const Piece& piece) {
      if (piece.end - piece.begin < kSliced) return SumWhole(inout, piece);
      SumSlices(inout, piece);
    });
  }

  void AllGather(Matrix mine, Matrix all) override {
    if (all.rows != size_ * mine.rows || all.cols != mine.cols || all.dtype != mine.dtype)
      return Refuse("AllGather", "the matrices do not match");
    const auto place = [&](int each) { return all.Rows(each * mine.rows, mine.rows); };
    InPieces(mine, [&](const Piece& piece) {
      ForEachRun(mine, piece.begin, piece.end, [&](void* run, int64_t offset, int64_t count) {
        Unpack(run, piece.begin + offset, piece.begin + offset + count, place(rank_));
      });
      ForPeers([&](int peer) { Put(peer, kGather, mine, piece); });
      ForPeers([&](int peer) {
        Take(peer, kGather, mine, piece,
             [&](const void* data) { Unpack(data, piece.begin, piece.end, place(peer)); });
      });
    });
  }

  void Broadcast(int root, Matrix inout) override {
    if (root < 0 || root >= size_) return Refuse("Broadcast", absl::StrCat("no rank ", root));
    InPieces(inout, [&](const Piece& piece) {
      if (rank_ == root) return ForPeers([&](int peer) { Put(peer, kBroadcast, inout, piece); });
      Take(root, kBroadcast, inout, piece,
           [&](const void* data) { Unpack(data, piece.begin, piece.end, inout); });
    });
  }

  void Send(Matrix from, int to_rank) override {
    if (!Linked(rank_, to_rank, from, "Send")) return;
    InPieces(from, [&](const Piece& piece) {
      const double waited = waited_;
      const auto begin = std::chrono::steady_clock::now();
      Put(to_rank, kMatrix, from, piece);
      transferred_ += Since(begin) - (waited_ - waited);
    });
  }

  void Recv(int from_rank, Matrix to) override {
    if (!Linked(from_rank, rank_, to, "Recv")) return;
    InPieces(to, [&](const Piece& piece) {
      Take(from_rank, kMatrix, to, piece, [&](const void* data) {
        const auto begin = std::chrono::steady_clock::now();
        Unpack(data, piece.begin, piece.end, to);
        transferred_ += Since(begin);
      });
    });
  }

  absl::Status status() const override {
    MutexLock lock(&mutex_);
    return Detached(status_);
  }
  void Abort(const absl::Status& why) override {
    Fail(why.ok() ? absl::CancelledError("aborted") : why);
  }
  double transfer_seconds() const override { return transferred_; }
  double wait_seconds() const override { return waited_; }

 private:
  struct Piece {
    int64_t begin = 0, end = 0;  // elements
    uint32_t index = 0;
  };

  static double Since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  template <typename Move>
  void InPieces(Matrix matrix, Move move) {
    const int64_t elements = matrix.rows * matrix.cols, most = PieceElements(options_);
    Piece piece;
    for (; piece.begin < elements && !failed_.load(); ++piece.index, piece.begin = piece.end) {
      piece.end = std::min(piece.begin + most, elements);
      move(piece);
    }
  }

  // Each rank begins with its neighbour, so that they do not all go for the same one.
  template <typename Act>
  void ForPeers(Act act) {
    for (int i = 1; i < size_ && !failed_.load(); ++i) act((rank_ + i) % size_);
  }

  // Elements [piece.begin, piece.end) of the matrix to a peer.
  void Put(int peer, Operation operation, Matrix matrix, const Piece& piece) {
    absl::Status status;
    const auto begin = std::chrono::steady_clock::now();
    std::byte* to = mesh_->Next(peer, options_.timeout, &status);
    waited_ += Since(begin);
    if (to != nullptr) {
      Pack(matrix, piece.begin, piece.end, to);
      status = mesh_->Post(peer, {operation, piece.index, matrix.rows, matrix.cols},
                           (piece.end - piece.begin) * static_cast<int64_t>(SizeOf(matrix.dtype)));
    }
    if (!status.ok()) Fail(Named(status, operation));
  }

  // The next message of a peer, which must be this piece of such a matrix; null after an error.
  // Release() it when it has been read.
  const void* Await(int peer, Operation operation, Matrix matrix, const Piece& piece) {
    const auto begin = std::chrono::steady_clock::now();
    const absl::StatusOr<GlooMesh::Message> message = mesh_->Receive(peer, options_.timeout);
    waited_ += Since(begin);
    if (!message.ok()) {
      Fail(Named(message.status(), operation));
      return nullptr;
    }
    const MessageHeader& header = message->header;
    if (header.operation == operation && header.piece == piece.index &&
        header.rows == matrix.rows && header.cols == matrix.cols)
      return message->data;
    Refuse(NameOf(operation),
           absl::StrCat("rank ", peer, " is at ", NameOf(header.operation), " of ", header.rows,
                        "x", header.cols, ", this one at ", matrix.rows, "x", matrix.cols));
    return nullptr;
  }
  template <typename Read>
  void Take(int peer, Operation operation, Matrix matrix, const Piece& piece, Read read) {
    const void* data = Await(peer, operation, matrix, piece);
    if (data == nullptr) return;
    read(data);
    mesh_->Release(peer);
  }

  // Adds every peer's next message, of [begin, end) of the matrix, and own_ up, in rank order.
  void SumMessages(Operation operation, Matrix inout, const Piece& piece) {
    terms_[static_cast<size_t>(rank_)] = own_.data();
    ForPeers([&](int peer) {
      terms_[static_cast<size_t>(peer)] =
          static_cast<const float*>(Await(peer, operation, inout, piece));
    });
    if (failed_.load()) return;
    ForEachRun(inout, piece.begin, piece.end, [&](void* run, int64_t offset, int64_t count) {
      std::vector<const float*>& shifted = shifted_;
      shifted.assign(terms_.begin(), terms_.end());
      for (const float*& term : shifted) term += offset;
      SumInOrder(shifted.data(), size_, count, static_cast<float*>(run));
    });
    ForPeers([&](int peer) { mesh_->Release(peer); });
  }

  // Every rank sends everything to every other, and adds up everything.
  void SumWhole(Matrix inout, const Piece& piece) {
    Pack(inout, piece.begin, piece.end, own_.data());
    ForPeers([&](int peer) { Put(peer, kSum, inout, piece); });
    SumMessages(kSum, inout, piece);
  }

  // Every rank is sent its slice by every other, adds it up, and sends the sum to all.
  void SumSlices(Matrix inout, const Piece& piece) {
    const auto slice = [&](int each) {
      const int64_t length = piece.end - piece.begin;
      const auto bound = [&](int i) {
        return i == size_ ? piece.end : piece.begin + length * i / size_ / 16 * 16;
      };
      return Piece{bound(each), bound(each + 1), piece.index};
    };
    const Piece mine = slice(rank_);
    Pack(inout, mine.begin, mine.end, own_.data());
    ForPeers([&](int peer) { Put(peer, kSlice, inout, slice(peer)); });
    SumMessages(kSlice, inout, mine);
    ForPeers([&](int peer) { Put(peer, kSummed, inout, mine); });
    ForPeers([&](int peer) {
      const Piece theirs = slice(peer);
      Take(peer, kSummed, inout, theirs,
           [&](const void* data) { Unpack(data, theirs.begin, theirs.end, inout); });
    });
  }

  // False when the group has failed, be it for this.
  bool Fits(Matrix matrix, const char* operation) {
    if (matrix.rows * matrix.cols > options_.max_elements)
      Refuse(operation,
             absl::StrCat(matrix.rows, "x", matrix.cols, " exceeds the group's buffers of ",
                          options_.max_elements, " elements"));
    return !failed_.load();
  }
  bool Linked(int from, int to, Matrix matrix, const char* operation) {
    const auto& links = options_.links;
    if (std::find(links.begin(), links.end(), std::pair(from, to)) == links.end())
      Refuse(operation, absl::StrCat("no link from rank ", from, " to rank ", to));
    return Fits(matrix, operation);
  }

  void Refuse(const char* operation, const std::string& why) {
    Fail(absl::InvalidArgumentError(Text(operation, why)));
  }
  absl::Status Named(const absl::Status& status, Operation operation) const {
    return absl::Status(status.code(), Text(NameOf(operation), std::string(status.message())));
  }
  std::string Text(const char* operation, const std::string& why) const {
    return absl::StrCat(name_, " group, rank ", rank_, ", ", operation, ": ", why);
  }
  void Fail(const absl::Status& why) {
    {
      MutexLock lock(&mutex_);
      if (!status_.ok()) return;
      status_ = Detached(why);
    }
    failed_.store(true);
    mesh_->Abort();
  }

  const std::unique_ptr<GlooMesh> mesh_;
  const std::string name_;
  const int rank_, size_;
  const CommOptions options_;
  std::vector<float> own_;
  std::vector<const float*> terms_, shifted_;  // of a sum, by rank
  double waited_ = 0, transferred_ = 0;        // seconds
  std::atomic<bool> failed_{false};
  mutable Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

GlooJoin::GlooJoin(std::unique_ptr<GlooMesh> mesh, std::string group, int rank, int size,
                   CommOptions options)
    : mesh_(std::move(mesh)),
      group_(std::move(group)),
      rank_(rank),
      size_(size),
      options_(std::move(options)) {}

GlooJoin::~GlooJoin() = default;

absl::StatusOr<std::unique_ptr<GlooJoin>> GlooJoin::Create(
    const std::string& bind, const std::string& group, int rank, int size, uint64_t epoch,
    const CommOptions& options, std::chrono::milliseconds connect_timeout) {
  if (rank < 0 || rank >= size)
    return absl::InvalidArgumentError(absl::StrCat(group, " group has no rank ", rank));
  const int64_t piece = PieceElements(options);
  const int64_t pieces = (options.max_elements + piece - 1) / piece;
  constexpr int kAhead = 4;  // a sum has two messages, and a peer may be one sum ahead
  GlooMesh::Options mesh_options;
  mesh_options.connect_timeout = connect_timeout;
  mesh_options.message_bytes = piece * static_cast<int64_t>(sizeof(float));
  mesh_options.ahead_in.assign(static_cast<size_t>(size), kAhead);
  mesh_options.ahead_out = mesh_options.ahead_in;
  const int depth = std::max(kAhead, static_cast<int>(options.send_depth * pieces));
  for (const auto& [from, to] : options.links) {
    if (to == rank) mesh_options.ahead_in[static_cast<size_t>(from)] = depth;
    if (from == rank) mesh_options.ahead_out[static_cast<size_t>(to)] = depth;
  }
  const uint64_t identity = std::hash<std::string>()(absl::StrCat(
      group, "/", epoch, "/", size, "/", options.max_elements, "/", options.send_depth));
  ASSIGN_OR_RETURN(std::unique_ptr<GlooMesh> mesh,
                   GlooMesh::Create(bind, rank, size, identity, std::move(mesh_options)));
  return std::unique_ptr<GlooJoin>(new GlooJoin(std::move(mesh), group, rank, size, options));
}

const std::string& GlooJoin::address() const { return mesh_->address(); }

absl::StatusOr<std::unique_ptr<Communicator>> GlooJoin::Connect(
    const std::vector<std::string>& addresses) {
  if (!mesh_) return absl::FailedPreconditionError(absl::StrCat(group_, " group: joined already"));
  const absl::Status status = mesh_->Connect(addresses);
  if (!status.ok())
    return absl::Status(status.code(),
                        absl::StrCat(group_, " group, rank ", rank_, ": ", status.message()));
  return std::make_unique<GlooComm>(std::move(mesh_), group_, rank_, size_, options_);
}

}  // namespace penstock
