#include "shard/remote/credentials.h"

#include <sys/stat.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/remote/shard_secrets.h"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CredentialsTest : public testing::Test {
 protected:
  static absl::Status Refused(const ShardSecurity& security) {
    return ShardCredentials::Read(security).status();
  }
  std::string Missing() const { return secrets_.folder() + "/missing"; }

  const ShardSecrets secrets_;
};

TEST_F(CredentialsTest, NothingIsFineAndProtectsNothing) {
  EXPECT_FALSE(ShardSecurity().any());
  GoodCredentials({});
  ShardSecurity one;
  one.tls_key = "key";
  EXPECT_TRUE(one.any());
}

TEST_F(CredentialsTest, MissingFilesAreNamed) {
  ShardSecurity security;
  security.token_file = Missing();
  EXPECT_THAT(Refused(security), Fails(absl::StatusCode::kNotFound, HasSubstr(Missing())));
  const TestAuthority authority("A");
  for (std::string ShardSecurity::*path :
       {&ShardSecurity::tls_ca, &ShardSecurity::tls_cert, &ShardSecurity::tls_key}) {
    security = secrets_.Tls(authority, authority);
    security.*path = Missing();
    EXPECT_THAT(Refused(security), Fails(absl::StatusCode::kNotFound, HasSubstr(Missing())));
  }
}

TEST_F(CredentialsTest, EmptyFilesAreNamed) {
  ShardSecurity security = secrets_.Token("");
  EXPECT_THAT(Refused(security),
              Fails(absl::StatusCode::kInvalidArgument,
                    AllOf(HasSubstr(security.token_file), HasSubstr("is empty"))));
  const TestAuthority authority("A");
  security = secrets_.Tls(authority, authority);
  security.tls_ca = secrets_.Write("ca", "");
  EXPECT_THAT(Refused(security), Fails(absl::StatusCode::kInvalidArgument,
                                       AllOf(HasSubstr("--shard-tls-ca"),
                                             HasSubstr(security.tls_ca), HasSubstr("is empty"))));
}

TEST_F(CredentialsTest, WhatIsNoFileOrTooLargeIsRefused) {
  ShardSecurity security;
  security.token_file = secrets_.folder();
  EXPECT_THAT(Refused(security),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("not a regular file")));
  security.token_file = secrets_.folder() + "/pipe";
  ASSERT_EQ(mkfifo(security.token_file.c_str(), 0600), 0);
  EXPECT_THAT(Refused(security),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("not a regular file")));
  EXPECT_THAT(Refused(secrets_.Token(std::string((1 << 20) + 1, 'x'))),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("1048577 bytes")));
}

TEST_F(CredentialsTest, ATokenThatOthersCanReadIsRefusedWithTheRemedy) {
  for (const mode_t mode : {0604, 0640, 0620, 0777}) {
    ShardSecurity security;
    security.token_file = secrets_.Write("token", kToken, mode);
    EXPECT_THAT(Refused(security), Fails(absl::StatusCode::kPermissionDenied,
                                         HasSubstr("chmod 600 " + security.token_file)));
  }
  ShardSecurity security;
  security.token_file = secrets_.Write("token", kToken, 0400);
  GoodCredentials(security);
}

TEST_F(CredentialsTest, ATokenHasSixteenVisibleCharacters) {
  GoodCredentials(secrets_.Token("0123456789abcdef"));
  EXPECT_THAT(
      Refused(secrets_.Token("0123456789abcde")),
      Fails(absl::StatusCode::kInvalidArgument,
            AllOf(HasSubstr("15 characters"), HasSubstr("openssl rand"), HasSubstr("/token"))));
  EXPECT_THAT(Refused(secrets_.Token("\n0123456789abcdef")),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("0 characters")));
  EXPECT_THAT(Refused(secrets_.Token(std::string(4097, 'x'))),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("4097 characters")));
  for (const char* bad :
       {"0123456789 abcdef-secret", "0123456789abcdef-secret ", "0123456789\tabcdef-secret",
        "0123456789\x7f-secret", "0123456789ä-secret"})
    EXPECT_THAT(Refused(secrets_.Token(bad)),
                Fails(absl::StatusCode::kInvalidArgument, HasSubstr("visible ASCII")));
  EXPECT_THAT(Refused(secrets_.Token(std::string("0123456789abcdef\0secret", 23))),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("visible ASCII")));
}

TEST_F(CredentialsTest, TlsNeedsAllThreeFiles) {
  const TestAuthority authority("A");
  const ShardSecurity all = secrets_.Tls(authority, authority);
  GoodCredentials(all);
  const std::string together = "go together";
  ShardSecurity some = all;
  some.tls_cert.clear();
  EXPECT_THAT(Refused(some),
              Fails(absl::StatusCode::kInvalidArgument,
                    AllOf(HasSubstr("without --shard-tls-cert"), HasSubstr(together))));
  some = all;
  some.tls_key.clear();
  EXPECT_THAT(Refused(some),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("without --shard-tls-key")));
  some = all;
  some.tls_ca.clear();
  EXPECT_THAT(Refused(some),
              Fails(absl::StatusCode::kInvalidArgument, HasSubstr("without --shard-tls-ca")));
  some = {};
  some.tls_key = all.tls_key;
  EXPECT_THAT(Refused(some), Fails(absl::StatusCode::kInvalidArgument,
                                   AllOf(HasSubstr("--shard-tls-key " + all.tls_key),
                                         HasSubstr("without --shard-tls-ca"))));
}

TEST_F(CredentialsTest, WhatIsNoPemIsNamed) {
  const TestAuthority authority("A");
  const ShardSecurity good = secrets_.Tls(authority, authority);
  for (const std::string& text : {std::string("no PEM"), authority.Issue(kHosts).key}) {
    ShardSecurity bad = good;
    bad.tls_ca = secrets_.Write("bad", text);
    EXPECT_THAT(Refused(bad), Fails(absl::StatusCode::kInvalidArgument,
                                    AllOf(HasSubstr("--shard-tls-ca " + bad.tls_ca),
                                          HasSubstr("no certificate in PEM"))));
    bad = good;
    bad.tls_cert = secrets_.Write("bad", text);
    EXPECT_THAT(Refused(bad), Fails(absl::StatusCode::kInvalidArgument,
                                    HasSubstr("--shard-tls-cert " + bad.tls_cert)));
  }
  ShardSecurity bad = good;
  bad.tls_key = good.tls_cert;
  EXPECT_THAT(Refused(bad), Fails(absl::StatusCode::kInvalidArgument,
                                  AllOf(HasSubstr("--shard-tls-key " + bad.tls_key),
                                        HasSubstr("no private key in PEM"))));
}

TEST_F(CredentialsTest, ADamagedCertificateIsCounted) {
  const std::string damaged =
      "-----BEGIN CERTIFICATE-----\nMIIBxjCCAWugAwIB\n-----END CERTIFICATE-----\n";
  const TestAuthority authority("A"), other("B");
  ShardSecurity security = secrets_.Tls(authority, authority);
  security.tls_ca = secrets_.Write("both", authority.certificate() + other.certificate());
  GoodCredentials(security);
  security.tls_ca = secrets_.Write("three", authority.certificate() + damaged);
  EXPECT_THAT(Refused(security), Fails(absl::StatusCode::kInvalidArgument,
                                       AllOf(HasSubstr(security.tls_ca),
                                             HasSubstr("certificate 2 in it is damaged"))));
  security.tls_ca = secrets_.Write("one", damaged);
  EXPECT_THAT(Refused(security), Fails(absl::StatusCode::kInvalidArgument,
                                       HasSubstr("certificate 1 in it is damaged")));
}

TEST_F(CredentialsTest, AKeyMustBeUsableAndOfItsCertificate) {
  const TestAuthority authority("A");
  ShardSecurity security = secrets_.Tls(authority, authority);
  security.tls_key = secrets_.Write("other", authority.Issue(kHosts).key);
  EXPECT_THAT(Refused(security),
              Fails(absl::StatusCode::kInvalidArgument,
                    AllOf(HasSubstr(security.tls_key), HasSubstr("is not the key of"),
                          HasSubstr(security.tls_cert))));
  security.tls_key = secrets_.Write("encrypted", EncryptedKey("swordfish"));
  EXPECT_THAT(Refused(security),
              Fails(absl::StatusCode::kInvalidArgument,
                    AllOf(HasSubstr(security.tls_key), HasSubstr("passphrase"))));
}

}  // namespace
}  // namespace penstock
