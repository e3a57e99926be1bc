#include "shard/comm/gloo_address.h"

#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace penstock {
namespace {

// What an address begins with; then, by rank, the length and bytes of each place.
struct Header {
  std::array<char, 8> magic{'p', 'e', 'n', 's', 't', 'o', 'c', 'k'};
  uint64_t identity = 0;
  int32_t rank = 0, size = 0;
};

}  // namespace

std::string MakeGlooAddress(uint64_t identity, int rank,
                            const std::vector<std::vector<char>>& places) {
  Header header;
  header.identity = identity;
  header.rank = rank;
  header.size = static_cast<int32_t>(places.size());
  std::string address(reinterpret_cast<const char*>(&header), sizeof(header));
  for (const std::vector<char>& place : places) {
    address.push_back(static_cast<char>(place.size()));
    address.append(place.begin(), place.end());
  }
  return address;
}

absl::StatusOr<std::vector<char>> ParseGlooAddress(const std::string& address, uint64_t identity,
                                                   int from, int to, int size) {
  Header header;
  const Header expected;
  const auto broken = absl::InvalidArgumentError(
      absl::StrCat("the address of rank ", from, " is none: ", address.size(), " bytes"));
  if (address.size() < sizeof(header)) return broken;
  std::memcpy(&header, address.data(), sizeof(header));
  if (header.magic != expected.magic) return broken;
  if (header.identity != identity || header.rank != from || header.size != size)
    return absl::FailedPreconditionError(
        absl::StrCat("the address of rank ", from, " is of another group, epoch or layout"));
  std::vector<char> found;
  size_t at = sizeof(header);
  for (int rank = 0; rank < size; ++rank) {
    if (at >= address.size()) return broken;
    const auto length = static_cast<size_t>(static_cast<unsigned char>(address[at++]));
    if (length > address.size() - at) return broken;
    if (rank == to) found.assign(address.data() + at, address.data() + at + length);
    at += length;
  }
  if (at != address.size()) return broken;
  return found;
}

}  // namespace penstock
