#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/front.h"
#include "server/rpc_stream.h"

namespace penstock {

// A gRPC service whose RPCs are answered on the front's call loop. Messages come as bytes: gRPC
// would answer what it cannot parse with a bare UNIMPLEMENTED. Subclasses name their RPCs when they
// are made.
class RpcService : public grpc::Service {
 public:
  using Handler = std::function<void(std::unique_ptr<RpcStream>)>;  // on the loop's thread

  const std::string& name() const { return name_; }  // with its package
  const Front& front() const { return front_; }
  // Answers from here on. Once, when the service's server has started.
  void Listen();

 protected:
  // `name`: with its package. `front` is borrowed.
  RpcService(absl::string_view name, const Front& front) : name_(name), front_(front) {}
  void AddRpc(absl::string_view rpc, Handler handler) { Add(rpc, std::move(handler), false); }
  // An RPC whose client may send several requests, or none at all: then it just ends.
  void AddStream(absl::string_view rpc, Handler handler) { Add(rpc, std::move(handler), true); }
  // An RPC that is answered at once, on the loop's thread, and counted under `method`. It is
  // answered while the server starts and drains, too.
  using Answer = std::function<absl::StatusOr<grpc::ByteBuffer>(const grpc::ByteBuffer& request)>;
  void AddAnswer(absl::string_view rpc, std::string method, Answer answer);
  // An RPC that this server does not do: UNIMPLEMENTED, saying `why`.
  void AddRefusal(absl::string_view rpc, std::string method, std::string why);

 private:
  class Rpc final : public RpcStream::Method {
   public:
    Rpc(RpcService& service, int index, std::string path, Handler handler, bool may_be_empty)
        : service_(service),
          index_(index),
          path_(std::move(path)),
          handler_(std::move(handler)),
          may_be_empty_(may_be_empty) {}
    const std::string& path() const { return path_; }

   private:
    void Request(grpc::ServerContext* context, RpcStream::Peer* peer, void* tag) override;
    void Accept(std::unique_ptr<RpcStream> stream) override;

    RpcService& service_;
    const int index_;
    const std::string path_;  // gRPC keeps a pointer to it
    const Handler handler_;
    const bool may_be_empty_;
  };

  void Add(absl::string_view rpc, Handler handler, bool may_be_empty);

  const std::string name_;
  const Front& front_;
  std::vector<std::unique_ptr<Rpc>> rpcs_;
};

}  // namespace penstock
