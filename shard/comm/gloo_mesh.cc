#include "shard/comm/gloo_mesh.h"

#include <gloo/common/error.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <future>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "shard/base/status_macros.h"
#include "shard/comm/gloo_address.h"

namespace penstock {
namespace {

using Buffer = gloo::transport::UnboundBuffer;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr size_t kHeader = 64;  // bytes of a message before its data, which is then aligned
static_assert(sizeof(MessageHeader) <= kHeader);
// Streams beside that of the messages.
constexpr uint64_t kGreeting = ~uint64_t{0}, kFarewell = ~uint64_t{1};
constexpr milliseconds kLinger{1000}, kForEver{std::chrono::hours(24 * 365)};

// What each side of a new connection tells the other: an address may be out of date, and anybody
// can connect.
struct Greeting {
  uint64_t identity = 0;
  int32_t from = -1, to = -1;
};

// Gloo tells errors by throwing, a timeout by its text alone.
absl::Status Caught(const std::exception& error) {
  const absl::string_view what = error.what();
  if (absl::StrContains(what, "imed out") || absl::StrContains(what, "timeout"))
    return absl::DeadlineExceededError("");
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

// At least a millisecond: Gloo takes none for for ever.
milliseconds Left(Clock::time_point deadline) {
  return std::max(milliseconds(1),
                  std::chrono::duration_cast<milliseconds>(deadline - Clock::now()));
}

}  // namespace

// A ring of messages each way, and a thread that watches for the peer's end: Gloo wakes nobody who
// waits for a message that was under way when the connection ended.
struct GlooMesh::Peer {
  struct Ring {
    std::vector<std::byte> memory;
    std::vector<std::unique_ptr<Buffer>> slots;
    uint64_t count = 0;   // messages taken, or posted
    uint64_t posted = 0;  // receives
    size_t at() const { return count % slots.size(); }
  };
  ~Peer() {
    if (!watcher.joinable()) return;
    ended.store(true);
    hear->abortWaitRecv();
    watcher.join();
  }

  void Watch(int rank) {
    bool here = true;
    while (!ended.load() && here)
      if (!Try([&] {
             here = hear->waitRecv(nullptr, kForEver);
             if (!here) return;
             SayFarewell(rank);  // so that the peer knows that all it sent has arrived
             farewell.set_value();
             hear->recv(rank, kFarewell);
           }).ok())
        here = false;
    Wake();
  }
  void SayFarewell(int rank) {
    if (!said_farewell.exchange(true)) tell->send(rank, kFarewell);
  }
  // Ends the waits for the peer, now and, once each, later.
  void Wake() {
    for (const auto& slot : in.slots) slot->abortWaitRecv();
    for (const auto& slot : out.slots) slot->abortWaitSend();
  }

  Ring in, out;
  Greeting theirs, ours;
  std::unique_ptr<Buffer> hear, tell;  // theirs, ours
  std::atomic<bool> said_farewell{false}, ended{false};
  std::promise<void> farewell;  // theirs
  std::thread watcher;
};

struct GlooMesh::Links {
  std::atomic<bool> aborted{false};
  std::shared_ptr<gloo::transport::Device> device;
  std::shared_ptr<gloo::transport::Context> context;
};

GlooMesh::GlooMesh(int rank, int size, uint64_t identity, Options options)
    : rank_(rank),
      size_(size),
      identity_(identity),
      options_(std::move(options)),
      links_(std::make_unique<Links>()),
      peers_(static_cast<size_t>(size)) {}

template <typename Act>
void GlooMesh::ForPeers(Act act) {
  for (int rank = 0; rank < size_; ++rank)
    if (rank != rank_) act(rank);
}

GlooMesh::~GlooMesh() {
  const auto deadline = Clock::now() + kLinger;
  std::vector<int> leaving;
  ForPeers([&](int rank) {
    if (!connected_ || links_->aborted.load() || !Flush(rank, deadline)) return;
    if (Try([&] { peer(rank).SayFarewell(rank); }).ok()) leaving.push_back(rank);
  });
  for (int rank : leaving) peer(rank).farewell.get_future().wait_until(deadline);
}

// False when the peer has gone, or does not take what was posted.
bool GlooMesh::Flush(int to, Clock::time_point deadline) {
  const Peer::Ring& ring = peer(to).out;
  bool gone = true;
  for (uint64_t i = ring.count - std::min<uint64_t>(ring.count, ring.slots.size());
       gone && i < ring.count; ++i) {
    Buffer& slot = *ring.slots[i % ring.slots.size()];
    if (!Try([&] { gone = slot.waitSend(nullptr, Left(deadline)); }).ok()) gone = false;
  }
  return gone;
}

absl::StatusOr<std::unique_ptr<GlooMesh>> GlooMesh::Create(const std::string& bind, int rank,
                                                           int size, uint64_t identity,
                                                           Options options) {
  std::unique_ptr<GlooMesh> mesh(new GlooMesh(rank, size, identity, std::move(options)));
  const absl::Status status = Try([&] { mesh->Listen(bind); });
  if (!status.ok())
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", bind, " for other ranks: it is no address of this host"));
  return mesh;
}

void GlooMesh::Listen(const std::string& bind) {
  links_->device = gloo::transport::tcp::CreateDevice(bind.c_str());
  links_->context = links_->device->createContext(rank_, size_);
  // Of the pairs made from now on, which wait five times as long to be connected.
  links_->context->setTimeout(std::max(milliseconds(1), options_.connect_timeout / 5));
  MakePeers();
  std::vector<std::vector<char>> places(static_cast<size_t>(size_));
  ForPeers([&](int rank) {
    places[static_cast<size_t>(rank)] = links_->context->createPair(rank)->address().bytes();
  });
  address_ = MakeGlooAddress(identity_, rank_, places);
}

void GlooMesh::MakePeers() {
  const size_t bytes = kHeader + static_cast<size_t>(options_.message_bytes);
  const auto make = [&](int slots, Peer::Ring* ring) {
    ring->memory.resize(static_cast<size_t>(slots) * bytes);
    for (int i = 0; i < slots; ++i)
      ring->slots.push_back(links_->context->createUnboundBuffer(
          ring->memory.data() + static_cast<size_t>(i) * bytes, bytes));
  };
  ForPeers([&](int rank) {
    const auto at = static_cast<size_t>(rank);
    peers_[at] = std::make_unique<Peer>();
    Peer& peer = *peers_[at];
    make(options_.ahead_in[at], &peer.in);
    make(options_.ahead_out[at], &peer.out);
    peer.hear = links_->context->createUnboundBuffer(&peer.theirs, sizeof(peer.theirs));
    peer.tell = links_->context->createUnboundBuffer(&peer.ours, sizeof(peer.ours));
  });
}

absl::Status GlooMesh::Connect(const std::vector<std::string>& addresses) {
  if (std::ssize(addresses) != size_)
    return absl::InvalidArgumentError(
        absl::StrCat(addresses.size(), " addresses for ", size_, " ranks"));
  std::vector<std::vector<char>> places(addresses.size());
  for (int rank = 0; rank < size_; ++rank) {
    const auto at = static_cast<size_t>(rank);
    if (rank == rank_) continue;
    ASSIGN_OR_RETURN(places[at], ParseGlooAddress(addresses[at], identity_, rank, rank_, size_));
  }
  for (int rank = 0; rank < size_; ++rank)
    if (rank != rank_) RETURN_IF_ERROR(Greet(rank, places[static_cast<size_t>(rank)]));
  for (int rank = 0; rank < size_; ++rank)
    if (rank != rank_) RETURN_IF_ERROR(HearFrom(rank));
  ForPeers([&](int rank) {
    Peer& peer = this->peer(rank);
    peer.watcher = std::thread([&peer, rank] { peer.Watch(rank); });
  });
  connected_ = true;
  return absl::OkStatus();
}

// Connects, tells who this is, and posts the receives.
absl::Status GlooMesh::Greet(int to, const std::vector<char>& place) {
  Peer& peer = this->peer(to);
  peer.ours = {identity_, rank_, to};
  const absl::Status status = Try([&] {
    links_->context->getPair(to)->connect(place);
    peer.hear->recv(to, kGreeting);
    peer.tell->send(to, kGreeting);
    for (auto& slot : peer.in.slots) slot->recv(to, peer.in.posted++);
  });
  return Named(status, to, "connecting to");
}

absl::Status GlooMesh::HearFrom(int from) {
  Peer& peer = this->peer(from);
  bool known = false;
  const absl::Status status = Try([&] {
    peer.hear->waitRecv(nullptr, options_.connect_timeout);
    peer.tell->waitSend(nullptr, options_.connect_timeout);
    known =
        peer.theirs.identity == identity_ && peer.theirs.from == from && peer.theirs.to == rank_;
    peer.hear->recv(from, kFarewell);
  });
  if (!status.ok()) return Named(status, from, "connecting to");
  if (known) return status;
  return absl::FailedPreconditionError(
      absl::StrCat("who connected as rank ", from, " is of another group, epoch or layout"));
}

std::byte* GlooMesh::Next(int to, milliseconds timeout, absl::Status* status) {
  Peer::Ring& ring = peer(to).out;
  Buffer& slot = *ring.slots[ring.at()];
  bool gone = true;
  if (ring.count >= ring.slots.size())
    *status = Try([&] { gone = slot.waitSend(nullptr, timeout); });
  if (status->ok() && !gone) *status = absl::UnavailableError("the connection has ended");
  if (!status->ok()) *status = Named(*status, to, "sending to");
  if (links_->aborted.load()) *status = absl::CancelledError("aborted");
  return status->ok() ? static_cast<std::byte*>(slot.ptr) + kHeader : nullptr;
}

absl::Status GlooMesh::Post(int to, const MessageHeader& header, int64_t bytes) {
  Peer::Ring& ring = peer(to).out;
  Buffer& slot = *ring.slots[ring.at()];
  std::memcpy(slot.ptr, &header, sizeof(header));
  const absl::Status status =
      Try([&] { slot.send(to, ring.count, 0, kHeader + static_cast<size_t>(bytes)); });
  ++ring.count;
  return Named(status, to, "sending to");
}

absl::StatusOr<GlooMesh::Message> GlooMesh::Receive(int from, milliseconds timeout) {
  Peer::Ring& ring = peer(from).in;
  Buffer& slot = *ring.slots[ring.at()];
  bool here = false;
  absl::Status status;
  if (ring.count < ring.posted) status = Try([&] { here = slot.waitRecv(nullptr, timeout); });
  // What had come before the peer closed counts, but Wake() comes first.
  if (status.ok() && !here && ring.count < ring.posted && !links_->aborted.load())
    Try([&] { here = slot.waitRecv(nullptr, milliseconds(0)); }).IgnoreError();
  if (links_->aborted.load()) return absl::CancelledError("aborted");
  if (status.ok() && !here) status = absl::UnavailableError("the connection has ended");
  RETURN_IF_ERROR(Named(status, from, "receiving from"));
  Message message;
  std::memcpy(&message.header, slot.ptr, sizeof(message.header));
  message.data = static_cast<const std::byte*>(slot.ptr) + kHeader;
  return message;
}

void GlooMesh::Release(int from) {
  Peer::Ring& ring = peer(from).in;
  Buffer& slot = *ring.slots[ring.at()];
  // It fails when the peer has gone; who expects more of it is told so.
  if (Try([&] { slot.recv(from, ring.posted); }).ok()) ++ring.posted;
  ++ring.count;
}

void GlooMesh::Abort() {
  links_->aborted.store(true);
  ForPeers([&](int rank) {
    peer(rank).Wake();
    Try([&] { links_->context->getPair(rank)->close(); }).IgnoreError();
  });
}

}  // namespace penstock
