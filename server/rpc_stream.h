#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/async_stream.h>

#include <memory>

#include "absl/status/statusor.h"
#include "server/call_loop.h"
#include "server/response_stream.h"

namespace penstock {

// The server's side of one RPC on a CallLoop. On the wire an RPC is the same whether its messages
// are declared to be streams or not, so all are taken as streams both ways. It waits for its RPC
// and the first message by itself; then it is the method's.
class RpcStream final : public ResponseStream {
 public:
  using Peer = grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

  // What streams are of; outlives them. Called on the loop's thread.
  class Method {
   public:
    virtual ~Method() = default;
    // Asks gRPC for the next RPC, with `tag` on the loop's queue.
    virtual void Request(grpc::ServerContext* context, Peer* peer, void* tag) = 0;
    virtual void Accept(std::unique_ptr<RpcStream> stream) = 0;
  };

  // Waits for one RPC after the other until the server shuts down. The loop does not stop before
  // all of them are done.
  static void Listen(Method& method, CallLoop& loop);
  ~RpcStream() override { loop_.Leave(); }

  const grpc::ServerContext& context() const { return context_; }
  const grpc::ByteBuffer& request() const override { return request_; }
  absl::Time client_deadline() const override;
  // Whether a first message came. Without one there is nothing to answer.
  bool has_request() const { return has_request_; }

  void Begin(Reactor& reactor) override;  // within Accept()
  void Write(const grpc::ByteBuffer& message) override { peer_.Write(message, &written_); }
  void Finish(const absl::Status& status) override;
  void WriteAndFinish(const grpc::ByteBuffer& message) override;
  void Drop(const absl::Status& status) override;
  // The next message of the client, into request(); OnRead() tells whether there is one. On the
  // loop's thread, one at a time, before Finish().
  void Read();

 private:
  // A tag of gRPC's that calls a method.
  class Tag final : public CallLoop::Event {
   public:
    using Handler = void (RpcStream::*)(bool ok);
    Tag(RpcStream& stream, Handler handler) : stream_(stream), handler_(handler) {}
    void Happen(bool ok) override { (stream_.*handler_)(ok); }

   private:
    RpcStream& stream_;
    const Handler handler_;
  };

  RpcStream(Method& method, CallLoop& loop);
  void OnRequested(bool ok);
  void OnRead(bool ok);
  void OnWritten(bool ok) { reactor_->OnWriteDone(ok); }
  void OnFinished(bool) { EndOne(); }
  void OnClosed(bool ok);
  void EndOne();

  Method& method_;
  CallLoop& loop_;
  Tag requested_{*this, &RpcStream::OnRequested};
  Tag read_{*this, &RpcStream::OnRead};
  Tag written_{*this, &RpcStream::OnWritten};
  Tag finished_{*this, &RpcStream::OnFinished};
  Tag closed_{*this, &RpcStream::OnClosed};
  grpc::ServerContext context_;
  Peer peer_{&context_};
  grpc::ByteBuffer request_;
  bool accepted_ = false;
  bool has_request_ = false;
  bool cancelled_ = false;
  Reactor* reactor_ = nullptr;
  int open_ends_ = 2;  // Finish() and the RPC, which end in either order; a read makes one more
};

// Answers a call that ends before it began.
void FinishAtOnce(std::unique_ptr<ResponseStream> stream, const absl::Status& status);
// One that is answered by one message; the status instead where there is none.
void AnswerAtOnce(std::unique_ptr<ResponseStream> stream, absl::StatusOr<grpc::ByteBuffer> message);

}  // namespace penstock
