#include "shard/remote/credentials.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

constexpr absl::string_view kHeader = "authorization";
constexpr absl::string_view kScheme = "Bearer ";
constexpr size_t kMinTokenLength = 16;
constexpr size_t kMaxTokenLength = 4096;  // gRPC takes 8 KiB of metadata
constexpr int64_t kMaxFileBytes = 1 << 20;

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Bio = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

class Descriptor {
 public:
  // Not waiting for the other end of a pipe.
  explicit Descriptor(const std::string& path)
      : number_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  const int number_;
};

enum class Readers { kAnyone, kOwner };

absl::Status CheckFile(const std::string& what, const std::string& path, const struct stat& file,
                       Readers readers) {
  if (!S_ISREG(file.st_mode))
    return absl::InvalidArgumentError(absl::StrCat(what, " is not a regular file"));
  if (readers == Readers::kOwner && (file.st_mode & 077) != 0)
    return absl::PermissionDeniedError(
        absl::StrFormat("%s is open to others than its owner (mode %04o): chmod 600 %s", what,
                        file.st_mode & 07777, path));
  if (file.st_size == 0) return absl::InvalidArgumentError(absl::StrCat(what, " is empty"));
  if (file.st_size > kMaxFileBytes)
    return absl::InvalidArgumentError(
        absl::StrCat(what, " has ", file.st_size, " bytes, too many for one"));
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadFile(absl::string_view role, const std::string& path,
                                     Readers readers) {
  const std::string what = absl::StrCat(role, " ", path);
  const Descriptor file(path);
  struct stat about;
  if (file.number() < 0 || fstat(file.number(), &about) != 0)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", what));
  RETURN_IF_ERROR(CheckFile(what, path, about, readers));
  std::string text(static_cast<size_t>(about.st_size), '\0');
  size_t had = 0;
  while (had < text.size()) {
    const ssize_t more = read(file.number(), text.data() + had, text.size() - had);
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", what));
    if (more == 0) return absl::InvalidArgumentError(absl::StrCat(what, " changed while read"));
    had += static_cast<size_t>(more);
  }
  return text;
}

Bio Open(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// The first of the certificates, all of which must be sound.
absl::StatusOr<Certificate> ParseCertificates(const std::string& what, const std::string& text) {
  const Bio bio = Open(text);
  Certificate first;
  int sound = 0;
  for (; Certificate next{PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)}; ++sound)
    if (first == nullptr) first = std::move(next);
  const bool ended = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();  // gRPC would take it for one of its own
  if (!ended)
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": certificate ", sound + 1, " in it is damaged"));
  if (first == nullptr)
    return absl::InvalidArgumentError(
        absl::StrCat(what, " has no certificate in PEM (-----BEGIN CERTIFICATE-----)"));
  return first;
}

int NoPassphrase(char*, int, int, void*) { return -1; }  // without it, OpenSSL asks the terminal

absl::StatusOr<Key> ParseKey(const std::string& what, const std::string& text) {
  const Bio bio = Open(text);
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
  ERR_clear_error();
  if (key != nullptr) return key;
  if (absl::StrContains(text, "ENCRYPTED"))
    return absl::InvalidArgumentError(
        absl::StrCat(what, " has a passphrase: write it without (openssl pkey -in OLD -out NEW)"));
  return absl::InvalidArgumentError(
      absl::StrCat(what, " has no private key in PEM (-----BEGIN PRIVATE KEY-----)"));
}

// The option's name of each path.
std::vector<std::pair<absl::string_view, const std::string*>> TlsFiles(const ShardSecurity& s) {
  return {{"--shard-tls-ca", &s.tls_ca},
          {"--shard-tls-cert", &s.tls_cert},
          {"--shard-tls-key", &s.tls_key}};
}

absl::Status CheckTlsComplete(const ShardSecurity& security) {
  const auto files = TlsFiles(security);
  const auto given = std::find_if(files.begin(), files.end(),
                                  [](const auto& file) { return !file.second->empty(); });
  const auto missing = std::find_if(files.begin(), files.end(),
                                    [](const auto& file) { return file.second->empty(); });
  if (given == files.end() || missing == files.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(given->first, " ", *given->second, " without ", missing->first,
                   ": both sides prove who they are, so --shard-tls-ca, --shard-tls-cert and "
                   "--shard-tls-key go together"));
}

// What gRPC says of a handshake that failed, and what is to be looked at then.
struct HandshakeError {
  absl::string_view said;
  absl::string_view advice;
};

constexpr HandshakeError kHandshakeErrors[] = {
    {"certificate verify failed",
     "the worker's certificate is not of this side's --shard-tls-ca, or it has expired"},
    {"not in peer certificate",
     "the worker's certificate must name the host by which the worker is dialed"},
    {"wrong version number",
     "the worker speaks no TLS, give it --shard-tls-ca, --shard-tls-cert, --shard-tls-key"},
};

// A worker that does not like the handshake hangs up without a word.
constexpr absl::string_view kHangUps[] = {"Socket closed", "Connection reset", "Broken pipe"};

absl::string_view Advice(absl::string_view message, bool tls) {
  if (!absl::StrContains(message, "failed to connect")) return "";
  for (const HandshakeError& error : kHandshakeErrors)
    if (tls && absl::StrContains(message, error.said)) return error.advice;
  for (const absl::string_view hang_up : kHangUps)
    if (absl::StrContains(message, hang_up))
      return tls ? "the worker may not accept this side's --shard-tls-cert: it must be of the "
                   "worker's "
                   "--shard-tls-ca and not have expired"
                 : "the worker may speak TLS only, name --shard-tls-ca, --shard-tls-cert and "
                   "--shard-tls-key";
  return "";
}

}  // namespace

absl::StatusOr<ShardCredentials> ShardCredentials::Read(const ShardSecurity& security) {
  RETURN_IF_ERROR(CheckTlsComplete(security));
  ShardCredentials credentials;
  if (!security.token_file.empty()) RETURN_IF_ERROR(credentials.ReadToken(security.token_file));
  if (!security.tls_ca.empty()) RETURN_IF_ERROR(credentials.ReadTls(security));
  return credentials;
}

absl::Status ShardCredentials::ReadToken(const std::string& path) {
  ASSIGN_OR_RETURN(std::string text, ReadFile("token file", path, Readers::kOwner));
  const std::string what = absl::StrCat("token file ", path);
  text.resize(std::min(text.find('\n'), text.size()));
  if (absl::EndsWith(text, "\r")) text.pop_back();
  if (!std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; }))
    return absl::InvalidArgumentError(
        absl::StrCat(what,
                     ": its first line, the token, may have visible ASCII characters only, "
                     "no spaces"));
  if (text.size() < kMinTokenLength || text.size() > kMaxTokenLength)
    return absl::InvalidArgumentError(absl::StrCat(
        what, ": its first line, the token, has ", text.size(), " characters, of at least ",
        kMinTokenLength, " and at most ", kMaxTokenLength, " (openssl rand -hex 32 makes one)"));
  token_ = std::move(text);
  return absl::OkStatus();
}

absl::Status ShardCredentials::ReadTls(const ShardSecurity& security) {
  ASSIGN_OR_RETURN(ca_, ReadFile("--shard-tls-ca", security.tls_ca, Readers::kAnyone));
  ASSIGN_OR_RETURN(certificates_,
                   ReadFile("--shard-tls-cert", security.tls_cert, Readers::kAnyone));
  ASSIGN_OR_RETURN(key_, ReadFile("--shard-tls-key", security.tls_key, Readers::kAnyone));
  RETURN_IF_ERROR(
      ParseCertificates(absl::StrCat("--shard-tls-ca ", security.tls_ca), ca_).status());
  ASSIGN_OR_RETURN(
      const Certificate certificate,
      ParseCertificates(absl::StrCat("--shard-tls-cert ", security.tls_cert), certificates_));
  ASSIGN_OR_RETURN(const Key key,
                   ParseKey(absl::StrCat("--shard-tls-key ", security.tls_key), key_));
  const bool matches = X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (matches) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--shard-tls-key ", security.tls_key,
                                                 " is not the key of the first certificate in "
                                                 "--shard-tls-cert ",
                                                 security.tls_cert));
}

std::shared_ptr<grpc::ServerCredentials> ShardCredentials::server() const {
  if (ca_.empty()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = ca_;
  options.pem_key_cert_pairs = {{.private_key = key_, .cert_chain = certificates_}};
  return grpc::SslServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> ShardCredentials::channel() const {
  if (ca_.empty()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = ca_;
  options.pem_private_key = key_;
  options.pem_cert_chain = certificates_;
  return grpc::SslCredentials(options);
}

void ShardCredentials::Sign(grpc::ClientContext* context) const {
  if (token_.empty()) return;
  context->AddMetadata(std::string(kHeader), absl::StrCat(kScheme, token_));
}

grpc::Status ShardCredentials::Check(const grpc::ServerContext& context) const {
  if (token_.empty()) return grpc::Status::OK;
  const auto& metadata = context.client_metadata();
  const grpc::string_ref header(kHeader.data(), kHeader.size());
  const auto given = metadata.find(header);
  if (given == metadata.end())
    return {grpc::StatusCode::UNAUTHENTICATED,
            "the worker asks for a token and the call brings none: name the file with the worker's "
            "token (--shard-token-file)"};
  const std::string wanted = absl::StrCat(kScheme, token_);
  if (metadata.count(header) == 1 && given->second.size() == wanted.size() &&
      CRYPTO_memcmp(given->second.data(), wanted.data(), wanted.size()) == 0)
    return grpc::Status::OK;
  return {grpc::StatusCode::UNAUTHENTICATED,
          "the call's token is not the worker's: the --shard-token-file of both must begin with "
          "the same "
          "line"};
}

absl::Status ShardCredentials::Explain(const grpc::Status& end) const {
  const auto code = static_cast<absl::StatusCode>(end.error_code());
  const std::string message = end.error_message();
  const absl::string_view advice =
      end.error_code() == grpc::StatusCode::UNAVAILABLE ? Advice(message, !ca_.empty()) : "";
  return {code, advice.empty() ? message : absl::StrCat(message, ": ", advice)};
}

}  // namespace penstock
