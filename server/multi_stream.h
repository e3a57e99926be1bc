#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "server/call_loop.h"
#include "server/rpc_stream.h"

namespace penstock {

// What the messages of a client that sends several are requests of. Of one RPC; on the loop's
// thread.
class MultiProtocol {
 public:
  virtual ~MultiProtocol() = default;
  // Begins to answer a request.
  virtual void Accept(std::unique_ptr<ResponseStream> stream) = 0;
  // What tells the client that a request failed; absent: the whole RPC ends with the status.
  virtual std::optional<grpc::ByteBuffer> Failure(const grpc::ByteBuffer& request,
                                                  const absl::Status& status) = 0;
  // What is still to be sent when the client has sent its last request and all are answered. Once.
  virtual std::optional<grpc::ByteBuffer> Last() { return std::nullopt; }
};

struct MultiStreamOptions {
  bool ordered = false;         // answers leave in the order of the requests
  size_t max_in_flight = 256;   // requests; with as many, no more is read
  size_t max_bytes = 64 << 20;  // of their messages, likewise
};

// An RPC whose client sends several messages, each a request of its own: their answers share the
// RPC's one write. It ends when the client has sent its last and all are answered. A client that
// takes nothing is given up as that of a single answer is.
//
// Everything happens on the call loop's thread; what comes from others is posted there.
class MultiStream final : private ResponseStream::Reactor,
                          public std::enable_shared_from_this<MultiStream> {
 public:
  // On the loop's thread.
  static void Start(std::unique_ptr<RpcStream> rpc, std::unique_ptr<MultiProtocol> protocol,
                    const MultiStreamOptions& options, CallLoop& loop);

  // Use Start; public for std::make_shared.
  MultiStream(std::unique_ptr<RpcStream> rpc, std::unique_ptr<MultiProtocol> protocol,
              const MultiStreamOptions& options, CallLoop& loop)
      : rpc_(std::move(rpc)), protocol_(std::move(protocol)), options_(options), loop_(loop) {}

 private:
  class Answer;

  // The RPC's side.
  void OnRead(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override { self_.reset(); }

  // The answers' side.
  void Offer(Answer& answer);
  void Withdraw(Answer& answer, const absl::Status& why);

  void TakeRequest();
  void ReadNext();
  void Pump();
  bool Send(Answer& answer);
  Answer* NextReady();
  void Remove(Answer& answer);
  void EndAll(const absl::Status& why);
  bool Closing() const { return cancelled_ || !status_.ok(); }
  void FinishIfDone();

  const std::unique_ptr<RpcStream> rpc_;
  const std::unique_ptr<MultiProtocol> protocol_;
  const MultiStreamOptions options_;
  CallLoop& loop_;
  std::shared_ptr<MultiStream> self_;
  std::deque<Answer*> answers_;  // of the requests in flight, in their order
  std::deque<Answer*> ready_;    // those that have something to send
  size_t bytes_ = 0;             // of the requests in flight
  Answer* writing_ = nullptr;
  std::optional<grpc::ByteBuffer> last_;  // being written, behind all answers
  bool reading_ = false;
  bool half_closed_ = false;  // no request comes any more
  bool cancelled_ = false;
  bool asked_last_ = false;
  bool finished_ = false;
  absl::Status status_;
};

}  // namespace penstock
