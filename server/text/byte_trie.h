#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace penstock {

// Byte strings with a number each, laid out to find all of them that begin a text. Immutable, safe
// to share.
class ByteTrie {
 public:
  static constexpr uint32_t kRoot = 0;

  // Numbers are not negative. Empty keys are left out; of equal ones the last counts.
  explicit ByteTrie(std::vector<std::pair<absl::string_view, int32_t>> entries);

  // The node of one byte more; kRoot when no key goes on like this.
  uint32_t Child(uint32_t node, char byte) const;
  // The number of the key that ends at the node; -1 when none does.
  int32_t value(uint32_t node) const { return values_[node]; }

 private:
  // Nodes are numbered level by level, so a node's children are neighbours: those of `node` are
  // [children_[node], children_[node + 1]), and labels_ has the byte that leads to each node.
  std::vector<uint32_t> children_;
  std::string labels_;
  std::vector<int32_t> values_;
};

}  // namespace penstock
