#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "shard/remote/credentials.h"
#include "tests/remote/test_certificates.h"

namespace penstock {

inline constexpr char kToken[] = "0123456789abcdef-secret";
inline constexpr char kHosts[] = "DNS:localhost,IP:127.0.0.1";

// An absl::Status of `code` whose message is as `text` says and tells no secret.
MATCHER_P2(Fails, code, text, "") {
  const std::string message(arg.message());
  return arg.code() == code && !absl::StrContains(message, "-secret") &&
         testing::ExplainMatchResult(text, message, result_listener);
}

// A folder for the secrets of one test, and the securities that are made of them.
class ShardSecrets {
 public:
  ShardSecrets();
  ~ShardSecrets();
  ShardSecrets(const ShardSecrets&) = delete;
  ShardSecrets& operator=(const ShardSecrets&) = delete;

  const std::string& folder() const { return folder_; }
  std::string Write(const std::string& name, const std::string& text, mode_t mode = 0600) const;

  ShardSecurity Token(const std::string& text = kToken) const;
  // Of a side that has a certificate of `by` for `hosts` and trusts those of `trusted`.
  ShardSecurity Tls(const TestAuthority& trusted, const TestAuthority& by,
                    const std::string& hosts = kHosts) const;

 private:
  std::string folder_;
};

// Fails the test when they cannot be read.
ShardCredentials GoodCredentials(const ShardSecurity& security);

}  // namespace penstock
