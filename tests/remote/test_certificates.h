#pragma once

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

namespace penstock {

// PEM of a certificate and its private key.
struct KeyPair {
  std::string certificate;
  std::string key;
};

// A certificate authority that lives as long as its test, so that no private key is kept in files.
// Its certificates are valid for an hour, for servers and clients alike.
class TestAuthority {
 public:
  explicit TestAuthority(const std::string& name);

  const std::string& certificate() const { return certificate_; }  // PEM
  // `hosts` as OpenSSL writes alternative names: "DNS:localhost,IP:127.0.0.1".
  KeyPair Issue(const std::string& hosts) const;

 private:
  const std::string name_;
  const std::shared_ptr<EVP_PKEY> key_;
  std::string certificate_;
};

// PEM of a private key with a passphrase.
std::string EncryptedKey(const std::string& passphrase);

}  // namespace penstock
