#pragma once

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "server/text/tokenizer.h"

namespace penstock {

// A token per byte, and two specials: 256 ends ("</s>"), 257 begins ("<s>").
class ByteTokenizer final : public Tokenizer {
 public:
  static constexpr int32_t kEos = 256, kBos = 257, kVocab = 258;

  std::vector<int32_t> Encode(absl::string_view text, const EncodeOptions& options) const override {
    std::vector<int32_t> ids;
    if (options.add_special_tokens) ids.push_back(kBos);
    while (!text.empty()) {
      if (options.parse_special_tokens && absl::StartsWith(text, "</s>")) {
        ids.push_back(kEos);
        text.remove_prefix(4);
      } else {
        ids.push_back(static_cast<unsigned char>(text.front()));
        text.remove_prefix(1);
      }
    }
    return ids;
  }
  Encoding EncodeInput(absl::string_view text, std::optional<absl::string_view> pair,
                       size_t max_tokens) const override {
    Encoding out;
    out.ids = Encode(text, {});
    out.types.assign(out.ids.size(), 0);
    if (pair) {
      const std::vector<int32_t> second = Encode(*pair, {});
      out.ids.insert(out.ids.end(), second.begin(), second.end());
      out.types.resize(out.ids.size(), 1);
    }
    if (max_tokens > 0 && out.ids.size() > max_tokens) {
      out.ids.resize(max_tokens);
      out.types.resize(max_tokens);
    }
    return out;
  }
  std::string Decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const override {
    std::string text;
    for (int32_t id : ids)
      if (!skip_special_tokens || !IsSpecial(id)) text += Bytes(id, false);
    return text;
  }
  std::string Bytes(int32_t id, bool /*first*/) const override {
    if (id == kEos) return "</s>";
    if (id == kBos) return "<s>";
    return id >= 0 && id < 256 ? std::string(1, static_cast<char>(id)) : std::string();
  }
  bool IsSpecial(int32_t id) const override { return id == kEos || id == kBos; }
  int32_t vocab_size() const override { return kVocab; }
};

}  // namespace penstock
