#include "tests/remote/shard_secrets.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"

namespace penstock {

ShardSecrets::ShardSecrets() : folder_(testing::TempDir() + "penstock-XXXXXX") {
  if (mkdtemp(folder_.data()) == nullptr) ADD_FAILURE() << "cannot make " << folder_;
}

ShardSecrets::~ShardSecrets() { std::filesystem::remove_all(folder_); }

std::string ShardSecrets::Write(const std::string& name, const std::string& text,
                                mode_t mode) const {
  const std::string path = absl::StrCat(folder_, "/", name);
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << text;
  EXPECT_EQ(chmod(path.c_str(), mode), 0) << path;
  return path;
}

ShardSecurity ShardSecrets::Token(const std::string& text) const {
  ShardSecurity security;
  security.token_file = Write("token", text);
  return security;
}

ShardSecurity ShardSecrets::Tls(const TestAuthority& trusted, const TestAuthority& by,
                                const std::string& hosts) const {
  const KeyPair side = by.Issue(hosts);
  ShardSecurity security;
  security.tls_ca = Write("ca", trusted.certificate());
  security.tls_cert = Write("certificate", side.certificate);
  security.tls_key = Write("key", side.key);
  return security;
}

ShardCredentials GoodCredentials(const ShardSecurity& security) {
  auto read = ShardCredentials::Read(security);
  if (read.ok()) return *std::move(read);
  ADD_FAILURE() << read.status();
  return ShardCredentials();
}

}  // namespace penstock
