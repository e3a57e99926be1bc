#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/async_stream.h>

#include <memory>

#include "server/call_loop.h"

namespace penstock {

// The server's side of one RPC that answers a request with a stream, on a CallLoop. Messages go in
// and out as bytes. It waits for its RPC by itself; once that has come it is the method's.
class ServerStream {
 public:
  using Writer = grpc::ServerAsyncWriter<grpc::ByteBuffer>;

  // What streams are of; outlives them. Called on the loop's thread.
  class Method {
   public:
    virtual ~Method() = default;
    // Asks gRPC for the next RPC, with `tag` on the loop's queue.
    virtual void Request(grpc::ServerContext* context, grpc::ByteBuffer* request, Writer* writer,
                         void* tag) = 0;
    virtual void Accept(std::unique_ptr<ServerStream> stream) = 0;
  };

  // Who answers is told, on the loop's thread, what happens.
  class Reactor {
   public:
    virtual ~Reactor() = default;
    virtual void OnWriteDone(bool ok) = 0;
    virtual void OnCancel() = 0;  // the client has gone, or its deadline has passed
    virtual void OnDone() = 0;    // last, after Finish(); here the stream may be destroyed
  };

  // Waits for one RPC after the other until the server shuts down.
  static void Listen(Method& method);

  ServerStream(const ServerStream&) = delete;
  ServerStream& operator=(const ServerStream&) = delete;

  grpc::ServerContext& context() { return context_; }
  const grpc::ByteBuffer& request() const { return request_; }

  // First of all, within Accept(); borrowed until its OnDone().
  void Begin(Reactor& reactor) { reactor_ = &reactor; }
  // One at a time; from any thread. `message` is borrowed until OnWriteDone().
  void Write(const grpc::ByteBuffer& message) { writer_.Write(message, &written_); }
  // Once, from any thread, when no write is outstanding.
  void Finish(const grpc::Status& status) { writer_.Finish(status, &finished_); }

 private:
  // A tag of gRPC's that calls a method.
  class Tag final : public CallLoop::Event {
   public:
    using Method = void (ServerStream::*)(bool ok);
    Tag(ServerStream& stream, Method method) : stream_(stream), method_(method) {}
    void Happen(bool ok) override { (stream_.*method_)(ok); }

   private:
    ServerStream& stream_;
    const Method method_;
  };

  explicit ServerStream(Method& method) : method_(method) {}
  void OnRequested(bool ok);
  void OnWritten(bool ok) { reactor_->OnWriteDone(ok); }
  void OnFinished(bool) { EndOne(); }
  void OnClosed(bool ok);
  void EndOne();

  Method& method_;
  Tag requested_{*this, &ServerStream::OnRequested};
  Tag written_{*this, &ServerStream::OnWritten};
  Tag finished_{*this, &ServerStream::OnFinished};
  Tag closed_{*this, &ServerStream::OnClosed};
  grpc::ServerContext context_;
  grpc::ByteBuffer request_;
  Writer writer_{&context_};
  Reactor* reactor_ = nullptr;
  int open_ends_ = 2;  // Finish() and the RPC, which end in either order
};

}  // namespace penstock
