#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cstring>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "shard/base/status_macros.h"
#include "shard/remote/credentials.h"

namespace penstock {
namespace {

struct HostPort {
  std::string host;
  std::string port;
};

absl::StatusOr<HostPort> SplitAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  HostPort split;
  if (colon != std::string::npos)
    split = {.host = address.substr(0, colon), .port = address.substr(colon + 1)};
  const bool bracketed =
      absl::StartsWith(split.host, "[") && absl::EndsWith(split.host, "]") && split.host.size() > 2;
  if (bracketed) split.host = split.host.substr(1, split.host.size() - 2);
  int port = 0;
  // A bare ::1 would be cut in the middle.
  if (split.host.empty() || (!bracketed && split.host.find_first_of(":[]/") != std::string::npos) ||
      split.port.find_first_not_of("0123456789") != std::string::npos ||
      !absl::SimpleAtoi(split.port, &port) || port > 65535)
    return absl::InvalidArgumentError(
        absl::StrCat("'", address, "' is no address: write HOST:PORT, [IPv6]:PORT or unix:PATH"));
  return split;
}

bool IsLoopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, address, sizeof(v4));
    return (ntohl(v4.sin_addr.s_addr) >> 24) == 127;
  }
  if (address->sa_family != AF_INET6) return false;
  sockaddr_in6 v6;
  std::memcpy(&v6, address, sizeof(v6));
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) return v6.sin6_addr.s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

std::string Numeric(const addrinfo& address) {
  char text[NI_MAXHOST] = "";
  getnameinfo(address.ai_addr, address.ai_addrlen, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  return text;
}

// The first address of `host` that is no loopback one; empty: there is none.
absl::StatusOr<std::string> FindExposed(const std::string& host) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0)
    return absl::NotFoundError(absl::StrCat("the name '", host, "' does not resolve (",
                                            gai_strerror(error),
                                            "): check its spelling and the "
                                            "name servers, or write its IP address"));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, freeaddrinfo);
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next)
    if (!IsLoopback(each->ai_addr)) return Numeric(*each);
  return std::string();
}

}  // namespace

absl::Status CheckExposure(const std::string& address, const ShardSecurity& security,
                           bool insecure) {
  if (absl::StartsWith(address, "unix:") && address.size() > 5) return absl::OkStatus();
  ASSIGN_OR_RETURN(const HostPort split, SplitAddress(address));
  if (security.any() || insecure) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string exposed, FindExposed(split.host));
  if (exposed.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      address, exposed == split.host ? "" : absl::StrCat(" (", exposed, ")"),
      " is not of this host alone, and nothing protects what a leader and its workers say there: "
      "name a --shard-token-file, or --shard-tls-ca, --shard-tls-cert and --shard-tls-key, or say "
      "--insecure if the "
      "network keeps others out"));
}

}  // namespace penstock
