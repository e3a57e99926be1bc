#include "server/text/charsmap.h"

#include <algorithm>

#include "server/text/unicode.h"

namespace penstock {
namespace {

constexpr size_t kLongestCluster = 5;  // bytes, replaced as a whole
// Bounds what a text can grow to. Unicode's longest replacement has 33 bytes.
constexpr size_t kLongestReplacement = 1024;

uint32_t ReadNumber(absl::string_view bytes) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

// A unit of a double array: 1 bit "is a leaf", then the leaf's value; or the byte that leads here
// (8 bits), "has a leaf" (1 bit), how the offset is scaled (1 bit) and the offset to the children.
bool HasLeaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t Value(uint32_t unit) { return unit & 0x7FFFFFFF; }
uint32_t Label(uint32_t unit) { return unit & 0x800000FF; }
uint32_t Offset(uint32_t unit) { return unit >> 10 << ((unit & 0x200) >> 6); }

// Whether every replacement is short.
bool AreShort(absl::string_view replacements) {
  size_t length = 0;
  return std::all_of(replacements.begin(), replacements.end(), [&length](char c) {
    length = c == '\0' ? 0 : length + 1;
    return length <= kLongestReplacement;
  });
}

absl::Status CharsmapError(absl::string_view problem) {
  return absl::InvalidArgumentError(problem);
}

}  // namespace

absl::StatusOr<Charsmap> Charsmap::Parse(absl::string_view bytes) {
  if (bytes.size() < 4) return CharsmapError("is shorter than its header");
  const uint32_t size = ReadNumber(bytes);
  bytes.remove_prefix(4);
  if (size > bytes.size()) return CharsmapError("is shorter than its header says");
  if (size == 0 || size % 4 != 0) return CharsmapError("has a trie of an odd size");
  Charsmap map;
  for (size_t at = 0; at < size; at += 4) map.units_.push_back(ReadNumber(bytes.substr(at)));
  map.replacements_ = std::string(bytes.substr(size));
  if (!IsValidUtf8(map.replacements_)) return CharsmapError("has replacements that are not UTF-8");
  if (!AreShort(map.replacements_)) return CharsmapError("has a replacement of over 1024 bytes");
  return map;
}

// The rule with the shortest pattern that begins `text` counts. A trie that leads out of itself, or
// into the middle of a character, has no rule there.
bool Charsmap::AppendReplacement(absl::string_view text, std::string* out) const {
  size_t node = Offset(units_[0]);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    node ^= byte;
    if (byte == 0 || node >= units_.size() || Label(units_[node]) != byte) return false;
    const uint32_t unit = units_[node];
    node ^= Offset(unit);
    if (!HasLeaf(unit)) continue;
    if (node >= units_.size()) return false;
    const size_t begin = Value(units_[node]);
    if (begin > replacements_.size()) return false;
    if ((static_cast<unsigned char>(replacements_[begin]) & 0xC0) == 0x80) return false;
    out->append(replacements_, begin, replacements_.find('\0', begin) - begin);
    return true;
  }
  return false;
}

void Charsmap::Apply(absl::string_view text, std::string* out) const {
  while (!text.empty()) {
    absl::string_view cluster = text.substr(0, GraphemeLength(text));
    text.remove_prefix(cluster.size());
    if (cluster.size() <= kLongestCluster && AppendReplacement(cluster, out)) continue;
    while (!cluster.empty()) {
      const absl::string_view character = cluster.substr(0, Utf8Length(cluster[0]));
      cluster.remove_prefix(character.size());
      if (!AppendReplacement(character, out)) out->append(character.data(), character.size());
    }
  }
}

}  // namespace penstock
