#include "tests/remote/test_certificates.h"

#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <stdexcept>

namespace penstock {
namespace {

template <typename T>
T Checked(T result, const char* call) {
  if (!result) throw std::runtime_error(std::string(call) + " failed in OpenSSL");
  return result;
}

std::shared_ptr<EVP_PKEY> MakeKey() {
  return {Checked(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"), "EVP_PKEY_Q_keygen"),
          EVP_PKEY_free};
}

std::shared_ptr<BIO> Memory() { return {Checked(BIO_new(BIO_s_mem()), "BIO_new"), BIO_free_all}; }

std::string Text(const std::shared_ptr<BIO>& bio) {
  char* data = nullptr;
  const long bytes = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(bytes));
}

std::string KeyPem(EVP_PKEY* key) {
  const auto bio = Memory();
  Checked(PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr), "PEM");
  return Text(bio);
}

void SetName(X509_NAME* to, const std::string& name) {
  Checked(
      X509_NAME_add_entry_by_txt(to, "CN", MBSTRING_ASC,
                                 reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0),
      "X509_NAME_add_entry_by_txt");
}

void Extend(X509* certificate, int kind, const std::string& value) {
  const std::shared_ptr<X509_EXTENSION> extension(
      Checked(X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str()), "X509V3_EXT_conf_nid"),
      X509_EXTENSION_free);
  Checked(X509_add_ext(certificate, extension.get(), -1), "X509_add_ext");
}

// The certificate of `key`, for `subject`, signed by `issuer` with `issuer_key`.
std::string Sign(EVP_PKEY* key, const std::string& subject, const std::string& issuer,
                 EVP_PKEY* issuer_key, int extension, const std::string& value) {
  const std::shared_ptr<X509> made(Checked(X509_new(), "X509_new"), X509_free);
  X509_set_version(made.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(made.get()), 1 + static_cast<long>(subject.size()));
  X509_gmtime_adj(X509_getm_notBefore(made.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(made.get()), 3600);
  SetName(X509_get_subject_name(made.get()), subject);
  const std::shared_ptr<X509_NAME> by(Checked(X509_NAME_new(), "X509_NAME_new"), X509_NAME_free);
  SetName(by.get(), issuer);
  X509_set_issuer_name(made.get(), by.get());
  X509_set_pubkey(made.get(), key);
  Extend(made.get(), extension, value);
  Checked(X509_sign(made.get(), issuer_key, EVP_sha256()), "X509_sign");
  const auto bio = Memory();
  Checked(PEM_write_bio_X509(bio.get(), made.get()), "PEM_write_bio_X509");
  return Text(bio);
}

}  // namespace

TestAuthority::TestAuthority(const std::string& name)
    : name_(name),
      key_(MakeKey()),
      certificate_(
          Sign(key_.get(), name, name, key_.get(), NID_basic_constraints, "critical,CA:TRUE")) {}

KeyPair TestAuthority::Issue(const std::string& hosts) const {
  const auto key = MakeKey();
  return {.certificate =
              Sign(key.get(), "a side of " + name_, name_, key_.get(), NID_subject_alt_name, hosts),
          .key = KeyPem(key.get())};
}

std::string EncryptedKey(const std::string& passphrase) {
  const auto key = MakeKey();
  const auto bio = Memory();
  Checked(PEM_write_bio_PKCS8PrivateKey(bio.get(), key.get(), EVP_aes_256_cbc(), passphrase.data(),
                                        static_cast<int>(passphrase.size()), nullptr, nullptr),
          "PEM_write_bio_PKCS8PrivateKey");
  return Text(bio);
}

}  // namespace penstock
