#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/penstock/v1/shard.grpc.pb.h"
#include "shard/remote/credentials.h"
#include "tests/remote/shard_secrets.h"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A worker that only checks who calls.
class Doorkeeper final : public v1::ShardWorker::Service {
 public:
  Doorkeeper(ShardCredentials credentials, const std::string& address)
      : credentials_(std::move(credentials)) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, credentials_.server(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~Doorkeeper() override {
    if (server_) server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(5));
  }

  bool started() const { return server_ != nullptr; }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  grpc::Status Serve(grpc::ServerContext* context,
                     grpc::ServerReaderWriter<v1::WorkerMessage, v1::LeaderMessage>*) override {
    return credentials_.Check(*context);
  }

 private:
  const ShardCredentials credentials_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// How a call to `address` ends. The bound is not met by any of the errors that are expected.
grpc::Status Call(const std::string& address,
                  const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                  const std::function<void(grpc::ClientContext*)>& sign) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto channel = grpc::CreateCustomChannel(address, credentials, arguments);
  const auto stub = v1::ShardWorker::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  sign(&context);
  const auto stream = stub->Serve(&context);
  stream->WritesDone();
  return stream->Finish();
}

absl::Status Call(const std::string& address, const ShardCredentials& credentials) {
  return credentials.Explain(
      Call(address, credentials.channel(),
           [&](grpc::ClientContext* context) { credentials.Sign(context); }));
}

class CredentialsWireTest : public testing::Test {
 protected:
  const ShardSecrets secrets_;
};

TEST_F(CredentialsWireTest, WithoutSecretsAnyoneIsLetIn) {
  const Doorkeeper worker(ShardCredentials(), "127.0.0.1:0");
  ASSERT_TRUE(worker.started());
  EXPECT_TRUE(Call(worker.address(), ShardCredentials()).ok());
  EXPECT_TRUE(Call(worker.address(), GoodCredentials(secrets_.Token())).ok());
}

TEST_F(CredentialsWireTest, TheSameTokenIsLetInHoweverItsLineEnds) {
  const Doorkeeper worker(GoodCredentials(secrets_.Token()), "127.0.0.1:0");
  ASSERT_TRUE(worker.started());
  for (const char* end : {"", "\n", "\r\n", "\nmore lines\n"})
    EXPECT_TRUE(
        Call(worker.address(), GoodCredentials(secrets_.Token(absl::StrCat(kToken, end)))).ok());
}

TEST_F(CredentialsWireTest, NoTokenOrAnotherIsTurnedAway) {
  const Doorkeeper worker(GoodCredentials(secrets_.Token()), "127.0.0.1:0");
  ASSERT_TRUE(worker.started());
  EXPECT_THAT(Call(worker.address(), ShardCredentials()),
              Fails(absl::StatusCode::kUnauthenticated,
                    AllOf(HasSubstr("brings none"), HasSubstr("--shard-token-file"))));
  const std::string token = kToken;
  std::string last = token, first = token;
  last.back() ^= 1;
  first.front() ^= 1;
  for (const std::string& wrong : {last, first, token + "x", token.substr(0, token.size() - 1)})
    EXPECT_THAT(Call(worker.address(), GoodCredentials(secrets_.Token(wrong))),
                Fails(absl::StatusCode::kUnauthenticated,
                      AllOf(HasSubstr("not the worker's"), HasSubstr("--shard-token-file"))));
}

TEST_F(CredentialsWireTest, OnlyOneBearerTokenCounts) {
  const Doorkeeper worker(GoodCredentials(secrets_.Token()), "127.0.0.1:0");
  ASSERT_TRUE(worker.started());
  const auto with = [&](const std::vector<std::string>& values) {
    const auto sign = [&](grpc::ClientContext* context) {
      for (const std::string& value : values) context->AddMetadata("authorization", value);
    };
    return ShardCredentials().Explain(
        Call(worker.address(), grpc::InsecureChannelCredentials(), sign));
  };
  const std::string right = absl::StrCat("Bearer ", kToken);
  EXPECT_TRUE(with({right}).ok());
  EXPECT_THAT(with({kToken}),
              Fails(absl::StatusCode::kUnauthenticated, HasSubstr("not the worker's")));
  EXPECT_THAT(with({"Bearer "}),
              Fails(absl::StatusCode::kUnauthenticated, HasSubstr("not the worker's")));
  EXPECT_THAT(with({right, "Bearer other"}),
              Fails(absl::StatusCode::kUnauthenticated, HasSubstr("not the worker's")));
}

TEST_F(CredentialsWireTest, BothSidesOfOneAuthoritySpeakTls) {
  const TestAuthority authority("A");
  ShardSecurity security = secrets_.Tls(authority, authority);
  security.token_file = secrets_.Token().token_file;
  const Doorkeeper worker(GoodCredentials(security), "127.0.0.1:0");
  ASSERT_TRUE(worker.started());
  const absl::Status status = Call(worker.address(), GoodCredentials(security));
  EXPECT_TRUE(status.ok()) << status;
  security.token_file.clear();  // a certificate does not stand for the token
  EXPECT_THAT(Call(worker.address(), GoodCredentials(security)),
              Fails(absl::StatusCode::kUnauthenticated, HasSubstr("brings none")));
}

TEST_F(CredentialsWireTest, EachSideHasItsAuthority) {
  const TestAuthority workers("workers"), leaders("leaders");
  const Doorkeeper worker(GoodCredentials(secrets_.Tls(leaders, workers)), "127.0.0.1:0");
  ASSERT_TRUE(worker.started());
  const absl::Status status =
      Call(worker.address(), GoodCredentials(secrets_.Tls(workers, leaders)));
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(CredentialsWireTest, TlsOverAUnixSocketIsToLocalhost) {
  const TestAuthority authority("A");
  const std::string address = absl::StrCat("unix:", secrets_.folder(), "/socket");
  const Doorkeeper worker(GoodCredentials(secrets_.Tls(authority, authority)), address);
  ASSERT_TRUE(worker.started());
  const absl::Status status = Call(address, GoodCredentials(secrets_.Tls(authority, authority)));
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(CredentialsWireTest, AWorkerOfAnotherAuthorityIsNotTrusted) {
  const TestAuthority ours("ours"), theirs("theirs");
  const Doorkeeper worker(GoodCredentials(secrets_.Tls(ours, theirs)), "127.0.0.1:0");
  ASSERT_TRUE(worker.started());
  EXPECT_THAT(Call(worker.address(), GoodCredentials(secrets_.Tls(ours, ours))),
              Fails(absl::StatusCode::kUnavailable,
                    HasSubstr("the worker's certificate is not of this side's --shard-tls-ca")));
}

TEST_F(CredentialsWireTest, AWorkersCertificateMustNameItsHost) {
  const TestAuthority authority("A");
  const ShardSecurity elsewhere = secrets_.Tls(authority, authority, "DNS:elsewhere");
  const Doorkeeper worker(GoodCredentials(elsewhere), "127.0.0.1:0");
  ASSERT_TRUE(worker.started());
  EXPECT_THAT(Call(worker.address(), GoodCredentials(elsewhere)),
              Fails(absl::StatusCode::kUnavailable,
                    AllOf(HasSubstr("127.0.0.1"), HasSubstr("must name the host"))));
}

TEST_F(CredentialsWireTest, ALeaderOfAnotherAuthorityIsTurnedAway) {
  const TestAuthority ours("ours"), theirs("theirs");
  const Doorkeeper worker(GoodCredentials(secrets_.Tls(ours, ours)), "127.0.0.1:0");
  ASSERT_TRUE(worker.started());
  EXPECT_THAT(Call(worker.address(), GoodCredentials(secrets_.Tls(ours, theirs))),
              Fails(absl::StatusCode::kUnavailable,
                    HasSubstr("may not accept this side's --shard-tls-cert")));
}

TEST_F(CredentialsWireTest, ALeaderWithoutCertificateIsTurnedAway) {
  const TestAuthority authority("A");
  const ShardCredentials credentials = GoodCredentials(secrets_.Tls(authority, authority));
  const Doorkeeper worker(credentials, "127.0.0.1:0");
  ASSERT_TRUE(worker.started());
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = authority.certificate();
  const grpc::Status end = Call(worker.address(), grpc::SslCredentials(options), [](auto*) {});
  EXPECT_THAT(credentials.Explain(end),
              Fails(absl::StatusCode::kUnavailable,
                    HasSubstr("may not accept this side's --shard-tls-cert")));
}

TEST_F(CredentialsWireTest, PlainTextAndTlsDoNotMeet) {
  const TestAuthority authority("A");
  const ShardCredentials credentials = GoodCredentials(secrets_.Tls(authority, authority));
  const Doorkeeper secure(credentials, "127.0.0.1:0"), plain(ShardCredentials(), "127.0.0.1:0");
  ASSERT_TRUE(secure.started() && plain.started());
  EXPECT_THAT(Call(secure.address(), GoodCredentials(secrets_.Token())),
              Fails(absl::StatusCode::kUnavailable, HasSubstr("may speak TLS only")));
  EXPECT_THAT(Call(plain.address(), credentials),
              Fails(absl::StatusCode::kUnavailable, HasSubstr("the worker speaks no TLS")));
}

TEST_F(CredentialsWireTest, OtherErrorsStayAsTheyAre) {
  const std::string refused = "failed to connect to all addresses; last error: Connection refused";
  EXPECT_EQ(ShardCredentials().Explain({grpc::StatusCode::UNAVAILABLE, refused}),
            absl::UnavailableError(refused));
  EXPECT_EQ(ShardCredentials().Explain({grpc::StatusCode::UNAVAILABLE, "Socket closed"}),
            absl::UnavailableError("Socket closed"));  // of a worker that was connected
  EXPECT_TRUE(ShardCredentials().Explain(grpc::Status::OK).ok());
}

}  // namespace
}  // namespace penstock
