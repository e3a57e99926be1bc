#include <string>

#include "absl/strings/str_cat.h"
#include "shard/remote/credentials.h"
#include "tests/remote/shard_secrets.h"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CredentialsExposureTest, LoopbackAddressesNeedNoProtection) {
  for (const char* address :
       {"localhost:50051", "127.0.0.1:50051", "127.9.8.7:1", "[::1]:50051", "[::ffff:127.0.0.1]:1",
        "unix:/run/penstock.sock", "unix:relative", "127.0.0.1:0"})
    EXPECT_TRUE(CheckExposure(address, {}, false).ok()) << CheckExposure(address, {}, false);
}

TEST(CredentialsExposureTest, OtherAddressesNeedItAndTheErrorSaysWhat) {
  for (const char* address : {"0.0.0.0:50051", "[::]:50051", "10.0.0.7:50051", "128.0.0.1:1",
                              "[fd00::7]:50051", "[::ffff:10.0.0.7]:1"})
    EXPECT_THAT(CheckExposure(address, {}, false),
                Fails(absl::StatusCode::kFailedPrecondition,
                      AllOf(HasSubstr(address), HasSubstr("--shard-token-file"),
                            HasSubstr("--shard-tls-cert"), HasSubstr("--insecure"))));
}

TEST(CredentialsExposureTest, ProtectionOrTheUsersWordIsEnough) {
  ShardSecurity token, tls;
  token.token_file = "token";
  tls.tls_cert = "certificate";
  EXPECT_TRUE(CheckExposure("0.0.0.0:50051", token, false).ok());
  EXPECT_TRUE(CheckExposure("0.0.0.0:50051", tls, false).ok());
  EXPECT_TRUE(CheckExposure("0.0.0.0:50051", {}, true).ok());
}

TEST(CredentialsExposureTest, ANameThatDoesNotResolveSaysSo) {
  // A label of more than 63 characters is refused before any name server is asked.
  const std::string name = absl::StrCat(std::string(64, 'a'), ".invalid");
  EXPECT_THAT(
      CheckExposure(absl::StrCat(name, ":50051"), {}, false),
      Fails(absl::StatusCode::kNotFound, AllOf(HasSubstr(name), HasSubstr("does not resolve"))));
}

TEST(CredentialsExposureTest, WhatIsNoAddressIsRefusedEvenWithProtection) {
  for (const char* address : {"", "host", ":50051", "host:", "host:x", "host:65536", "host:-1",
                              "::1", "[]:1", "[::1]", "::1:50051", "http://host:1", "unix"})
    EXPECT_THAT(CheckExposure(address, {}, true),
                Fails(absl::StatusCode::kInvalidArgument, HasSubstr("HOST:PORT")));
}

}  // namespace
}  // namespace penstock
