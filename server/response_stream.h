#pragma once

#include <grpcpp/support/byte_buffer.h>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace penstock {

// Where a call's request is and where its answer goes: an RPC of its own, or one of several
// requests that share a stream. Messages are bytes.
class ResponseStream {
 public:
  // Who answers is told, on the call loop's thread, what happens.
  class Reactor {
   public:
    virtual ~Reactor() = default;
    virtual void OnWriteDone(bool ok) = 0;
    virtual void OnCancel() = 0;         // the client has gone, or its deadline has passed
    virtual void OnDone() = 0;           // last, after Finish(); here the stream may be destroyed
    virtual void OnRead(bool /*ok*/) {}  // of streams whose client sends several messages
  };

  virtual ~ResponseStream() = default;
  ResponseStream() = default;
  ResponseStream(const ResponseStream&) = delete;
  ResponseStream& operator=(const ResponseStream&) = delete;

  virtual const grpc::ByteBuffer& request() const = 0;
  virtual absl::Time client_deadline() const = 0;  // infinitely far when the client set none

  // First of all; the reactor is borrowed until its OnDone().
  virtual void Begin(Reactor& reactor) = 0;
  // One at a time; from any thread. `message` is borrowed until OnWriteDone().
  virtual void Write(const grpc::ByteBuffer& message) = 0;
  // Once, from any thread, when no write is outstanding. None of the reactor's methods is called
  // before it returns.
  virtual void Finish(const absl::Status& status) = 0;
  // The last message and OK in one; no OnWriteDone() comes.
  virtual void WriteAndFinish(const grpc::ByteBuffer& message) = 0;
  // While a write is outstanding: the status overtakes what flow control holds back, which is
  // dropped. OnWriteDone(false) follows, then Finish() is due.
  virtual void Drop(const absl::Status& status) = 0;
};

}  // namespace penstock
