#include "server/text/byte_trie.h"

#include <algorithm>
#include <cstring>

namespace penstock {

ByteTrie::ByteTrie(std::vector<std::pair<absl::string_view, int32_t>> entries) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  struct Range {
    size_t begin, end, depth;  // entries that begin with the node's bytes, so many
  };
  std::vector<Range> nodes = {{0, entries.size(), 0}};
  labels_ = std::string(1, '\0');  // nothing leads to the root
  for (size_t node = 0; node < nodes.size(); ++node) {
    auto [begin, end, depth] = nodes[node];
    int32_t value = -1;
    for (; begin < end && entries[begin].first.size() == depth; ++begin) {
      value = entries[begin].second;
    }
    values_.push_back(node == kRoot ? -1 : value);
    children_.push_back(static_cast<uint32_t>(nodes.size()));
    while (begin < end) {
      const char byte = entries[begin].first[depth];
      size_t next = begin;
      while (next < end && entries[next].first[depth] == byte) ++next;
      nodes.push_back({begin, next, depth + 1});
      labels_.push_back(byte);
      begin = next;
    }
  }
  children_.push_back(static_cast<uint32_t>(nodes.size()));
}

uint32_t ByteTrie::Child(uint32_t node, char byte) const {
  const char* begin = labels_.data() + children_[node];
  const size_t count = children_[node + 1] - children_[node];
  const void* found = std::memchr(begin, byte, count);
  if (found == nullptr) return kRoot;
  return static_cast<uint32_t>(static_cast<const char*>(found) - labels_.data());
}

}  // namespace penstock
