#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace penstock {

// What a message is about: sender and receiver must agree.
struct MessageHeader {
  uint32_t operation = 0;
  uint32_t piece = 0;  // of the operation's, from 0
  int64_t rows = 0, cols = 0;
};

// TCP connections among the ranks of a group, by Gloo: from each rank to each other an ordered
// stream of messages, each a header and up to `message_bytes` bytes. Receives are posted before
// anything is sent, so a sender may be some messages ahead. One thread sends and receives; Abort()
// may come from any. SIGPIPE must be ignored. Gloo ends the process when a stranger takes a peer's
// place in a connection that is being made and speaks its protocol wrongly; see GlooJoin.
//
// Memory is taken by Create(). The destructor lets what was posted arrive, for up to a second.
class GlooMesh {
 public:
  struct Options {
    int64_t message_bytes = 0;
    std::chrono::milliseconds connect_timeout{10000};  // for each peer
    // By peer: how many messages of theirs are received, and how many of ours are sent, ahead.
    std::vector<int> ahead_in, ahead_out;
  };

  // Listens on `bind` (a host name or address of an interface), there only. `identity`: what ranks
  // must agree about.
  static absl::StatusOr<std::unique_ptr<GlooMesh>> Create(const std::string& bind, int rank,
                                                          int size, uint64_t identity,
                                                          Options options);
  ~GlooMesh();

  // Where this rank listens, for the others: any bytes.
  const std::string& address() const { return address_; }
  // Connects to all, by their addresses, and exchanges identities with them. DeadlineExceeded or
  // Unavailable naming the rank; FailedPrecondition for another identity, of an address or of who
  // connects; InvalidArgument for bytes that are no address.
  absl::Status Connect(const std::vector<std::string>& addresses);

  // The place for the next message to a peer, free once the one that was there has gone; null and
  // an error in *status when it does not within `timeout`. Then Post() sends it.
  std::byte* Next(int to, std::chrono::milliseconds timeout, absl::Status* status);
  absl::Status Post(int to, const MessageHeader& header, int64_t bytes);

  // The oldest message of a peer, once it is there; it stays until Release(). Unavailable at once
  // when the peer has gone and all that it had sent has been received.
  struct Message {
    MessageHeader header;
    const std::byte* data = nullptr;
  };
  absl::StatusOr<Message> Receive(int from, std::chrono::milliseconds timeout);
  void Release(int from);

  // Ends every connection: what waits here, or will, ends with Cancelled or Unavailable, and so do
  // the peers' waits.
  void Abort();

 private:
  struct Peer;
  struct Links;  // Gloo's device, context and pairs
  GlooMesh(int rank, int size, uint64_t identity, Options options);
  Peer& peer(int rank) { return *peers_[static_cast<size_t>(rank)]; }
  template <typename Act>
  void ForPeers(Act act);
  void MakePeers();
  void Listen(const std::string& bind);
  absl::Status Greet(int to, const std::vector<char>& place);
  absl::Status HearFrom(int from);
  bool Flush(int to, std::chrono::steady_clock::time_point deadline);

  const int rank_, size_;
  const uint64_t identity_;
  const Options options_;
  std::string address_;
  bool connected_ = false;
  std::unique_ptr<Links> links_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank; none of one's own; before their links
};

}  // namespace penstock
