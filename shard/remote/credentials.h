#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace penstock {

// Where the secrets of the control plane between a leader and its workers are read from; an empty
// path: without. A token alone keeps strangers out; only TLS keeps what is sent, the token
// included, from being read or changed on its way.
struct ShardSecurity {
  // The first line is the token, which both sides share: at least 16 characters, all of them
  // visible ASCII. Nobody but the file's owner may have a right to it.
  std::string token_file;
  // PEM, all three or none. Whoever has a certificate of `tls_ca` is let in, so the authority
  // should be of this purpose alone. A worker's certificate must name the host by which it is
  // dialed (localhost for unix:).
  std::string tls_ca;    // of the other side's certificate
  std::string tls_cert;  // this side's, its chain behind it
  std::string tls_key;   // of tls_cert, without a passphrase

  bool any() const {
    return !token_file.empty() || !tls_ca.empty() || !tls_cert.empty() || !tls_key.empty();
  }
};

// What a ShardSecurity says, read and checked: the same class for both sides. Immutable,
// thread-safe.
class ShardCredentials {
 public:
  ShardCredentials() = default;  // without secrets

  // Errors name the file, what is wrong with it and what to do, never what is in it: NotFound,
  // PermissionDenied (also for a token that others can read), InvalidArgument.
  static absl::StatusOr<ShardCredentials> Read(const ShardSecurity& security);

  // Mutual TLS, where a client without a certificate of `tls_ca` is turned away; else insecure.
  std::shared_ptr<grpc::ServerCredentials> server() const;
  std::shared_ptr<grpc::ChannelCredentials> channel() const;

  // Puts the token, if any, into the metadata of a call that has not begun.
  void Sign(grpc::ClientContext* context) const;

  // UNAUTHENTICATED when there is a token and the call does not bring just this one. How long the
  // comparison takes does not tell how much of a wrong token is right.
  grpc::Status Check(const grpc::ServerContext& context) const;

  // The end of a call over channel(). Of a connection that failed in the handshake gRPC tells
  // little (a worker that turns a certificate away just hangs up); what is to be looked at is
  // added.
  absl::Status Explain(const grpc::Status& end) const;

 private:
  absl::Status ReadToken(const std::string& path);
  absl::Status ReadTls(const ShardSecurity& security);

  std::string token_;         // empty: without
  std::string ca_;            // PEM; empty: without TLS
  std::string certificates_;  // PEM
  std::string key_;           // PEM
};

// FailedPrecondition, saying what to do, when nothing protects the control plane and somebody on
// another host could reach `address` (host:port, [v6]:port or unix:path): one that is, or resolves
// also to, anything but a loopback address. Fine with `insecure`, which the user has to ask for.
// A host name takes as long as the system's resolver takes. InvalidArgument for what is no address
// of these forms, NotFound for a name that does not resolve.
absl::Status CheckExposure(const std::string& address, const ShardSecurity& security,
                           bool insecure);

}  // namespace penstock
