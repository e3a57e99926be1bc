#include "shard/comm/gloo_mesh.h"

#include <gloo/common/error.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <array>
#include <cstring>
#include <exception>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

using Buffer = gloo::transport::UnboundBuffer;

constexpr size_t kHeader = 64;  // bytes of a message before its data, which is then aligned
static_assert(sizeof(MessageHeader) <= kHeader);

// What a rank's address begins with; then, by rank, the length and bytes of Gloo's own.
struct AddressHeader {
  std::array<char, 8> magic{'p', 'e', 'n', 's', 't', 'o', 'c', 'k'};
  uint64_t identity = 0;
  int32_t rank = 0, size = 0;
};

// Gloo tells errors by throwing, a timeout by its text alone.
absl::Status Caught(const std::exception& error) {
  if (absl::StrContains(error.what(), "imed out")) return absl::DeadlineExceededError("");
  return absl::UnavailableError("the connection has ended");
}

template <typename Act>
absl::Status Try(Act act) {
  try {
    act();
  } catch (const std::exception& error) {
    return Caught(error);
  }
  return absl::OkStatus();
}

absl::Status Named(const absl::Status& status, int rank, absl::string_view what) {
  if (absl::IsDeadlineExceeded(status))
    return absl::DeadlineExceededError(
        absl::StrCat("no sign of rank ", rank, " within the bound (", what, " it)"));
  return absl::Status(status.code(), absl::StrCat(what, " rank ", rank, ": ", status.message()));
}

}  // namespace

class GlooMesh::Transport {
 public:
  std::shared_ptr<gloo::transport::Device> device;
  std::shared_ptr<gloo::transport::Context> context;
};

// A ring of messages each way.
struct GlooMesh::Peer {
  struct Ring {
    std::vector<std::byte> memory;
    std::vector<std::unique_ptr<Buffer>> slots;
    uint64_t count = 0;  // messages taken, or posted
    size_t at() const { return count % slots.size(); }
  };
  Ring in, out;
};

GlooMesh::GlooMesh(int rank, int size, uint64_t identity, Options options)
    : rank_(rank),
      size_(size),
      identity_(identity),
      options_(std::move(options)),
      transport_(std::make_unique<Transport>()),
      peers_(static_cast<size_t>(size)) {}

GlooMesh::~GlooMesh() = default;

absl::StatusOr<std::unique_ptr<GlooMesh>> GlooMesh::Create(const std::string& bind, int rank,
                                                           int size, uint64_t identity,
                                                           Options options) {
  std::unique_ptr<GlooMesh> mesh(new GlooMesh(rank, size, identity, std::move(options)));
  const absl::Status status = Try([&] { mesh->Open(bind).IgnoreError(); });
  if (!status.ok())
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", bind, " for other ranks: it is no address of this host"));
  return mesh;
}

absl::Status GlooMesh::Open(const std::string& bind) {
  transport_->device = gloo::transport::tcp::CreateDevice(bind.c_str());
  transport_->context = transport_->device->createContext(rank_, size_);
  transport_->context->setTimeout(options_.connect_timeout);  // of the pairs made from now on
  AddressHeader header;
  header.identity = identity_;
  header.rank = rank_;
  header.size = size_;
  address_.assign(reinterpret_cast<const char*>(&header), sizeof(header));
  for (int peer = 0; peer < size_; ++peer) {
    std::vector<char> bytes;
    if (peer != rank_) bytes = transport_->context->createPair(peer)->address().bytes();
    address_.push_back(static_cast<char>(bytes.size()));
    address_.append(bytes.begin(), bytes.end());
  }
  return absl::OkStatus();
}

namespace {

// What rank `from` says of where rank `to` finds it.
absl::StatusOr<std::vector<char>> AddressFor(const std::string& address, uint64_t identity,
                                             int from, int to, int size) {
  AddressHeader header;
  const AddressHeader expected;
  const auto broken = absl::InvalidArgumentError(
      absl::StrCat("the address of rank ", from, " is none: ", address.size(), " bytes"));
  if (address.size() < sizeof(header)) return broken;
  std::memcpy(&header, address.data(), sizeof(header));
  if (header.magic != expected.magic) return broken;
  if (header.identity != identity || header.rank != from || header.size != size)
    return absl::FailedPreconditionError(
        absl::StrCat("the address of rank ", from, " is of another group, epoch or layout"));
  std::vector<char> found;
  size_t at = sizeof(header);
  for (int rank = 0; rank < size; ++rank) {
    if (at >= address.size()) return broken;
    const auto length = static_cast<size_t>(static_cast<unsigned char>(address[at++]));
    if (length > address.size() - at) return broken;
    if (rank == to) found.assign(address.data() + at, address.data() + at + length);
    at += length;
  }
  if (at != address.size()) return broken;
  return found;
}

}  // namespace

absl::Status GlooMesh::Connect(const std::vector<std::string>& addresses) {
  if (std::ssize(addresses) != size_)
    return absl::InvalidArgumentError(
        absl::StrCat(addresses.size(), " addresses for ", size_, " ranks"));
  std::vector<std::vector<char>> theirs(addresses.size());
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    const auto at = static_cast<size_t>(peer);
    ASSIGN_OR_RETURN(theirs[at], AddressFor(addresses[at], identity_, peer, rank_, size_));
  }
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    const absl::Status status = Try(
        [&] { transport_->context->getPair(peer)->connect(theirs[static_cast<size_t>(peer)]); });
    if (!status.ok()) return Named(status, peer, "connecting to");
  }
  return MakePeers();
}

absl::Status GlooMesh::MakePeers() {
  const size_t bytes = kHeader + static_cast<size_t>(options_.message_bytes);
  const auto make = [&](int slots, Peer::Ring* ring) {
    ring->memory.resize(static_cast<size_t>(slots) * bytes);
    for (int i = 0; i < slots; ++i)
      ring->slots.push_back(transport_->context->createUnboundBuffer(
          ring->memory.data() + static_cast<size_t>(i) * bytes, bytes));
  };
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    const auto at = static_cast<size_t>(rank);
    peers_[at] = std::make_unique<Peer>();
    Peer& peer = *peers_[at];
    make(options_.ahead_in[at], &peer.in);
    make(options_.ahead_out[at], &peer.out);
    const absl::Status status = Try([&] {
      for (size_t i = 0; i < peer.in.slots.size(); ++i) peer.in.slots[i]->recv(rank, i, 0, bytes);
    });
    if (!status.ok()) return Named(status, rank, "receiving from");
  }
  return absl::OkStatus();
}

std::byte* GlooMesh::Next(int to, std::chrono::milliseconds timeout, absl::Status* status) {
  Peer::Ring& ring = peers_[static_cast<size_t>(to)]->out;
  Buffer& slot = *ring.slots[ring.at()];
  bool gone = true;
  if (ring.count >= ring.slots.size())
    *status = Try([&] { gone = slot.waitSend(nullptr, timeout); });
  if (!status->ok()) *status = Named(*status, to, "sending to");
  if (!gone) *status = absl::CancelledError("aborted");
  return status->ok() ? static_cast<std::byte*>(slot.ptr) + kHeader : nullptr;
}

absl::Status GlooMesh::Post(int to, const MessageHeader& header, int64_t bytes) {
  Peer::Ring& ring = peers_[static_cast<size_t>(to)]->out;
  Buffer& slot = *ring.slots[ring.at()];
  std::memcpy(slot.ptr, &header, sizeof(header));
  const absl::Status status =
      Try([&] { slot.send(to, ring.count, 0, kHeader + static_cast<size_t>(bytes)); });
  ++ring.count;
  return status.ok() ? status : Named(status, to, "sending to");
}

absl::StatusOr<GlooMesh::Message> GlooMesh::Receive(int from, std::chrono::milliseconds timeout) {
  Peer::Ring& ring = peers_[static_cast<size_t>(from)]->in;
  Buffer& slot = *ring.slots[ring.at()];
  bool here = false;
  const absl::Status status = Try([&] { here = slot.waitRecv(nullptr, timeout); });
  if (!status.ok()) return Named(status, from, "receiving from");
  if (!here) return absl::CancelledError("aborted");
  Message message;
  std::memcpy(&message.header, slot.ptr, sizeof(message.header));
  message.data = static_cast<const std::byte*>(slot.ptr) + kHeader;
  return message;
}

absl::Status GlooMesh::Release(int from) {
  Peer::Ring& ring = peers_[static_cast<size_t>(from)]->in;
  Buffer& slot = *ring.slots[ring.at()];
  const absl::Status status =
      Try([&] { slot.recv(from, ring.count + ring.slots.size(), 0, slot.size); });
  ++ring.count;
  return status.ok() ? status : Named(status, from, "receiving from");
}

void GlooMesh::Abort() {
  for (int rank = 0; rank < size_; ++rank) {
    const auto& peer = peers_[static_cast<size_t>(rank)];
    if (!peer) continue;
    for (const auto& slot : peer->in.slots) slot->abortWaitRecv();
    for (const auto& slot : peer->out.slots) slot->abortWaitSend();
    Try([&] { transport_->context->getPair(rank)->close(); }).IgnoreError();
  }
}

}  // namespace penstock
