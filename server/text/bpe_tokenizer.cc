#include "server/text/bpe_tokenizer.h"

#include <algorithm>
#include <utility>

#include "server/text/unicode.h"

namespace penstock {

struct BpeTokenizer::Scratch {
  RegexScratch regex;
  BpeModel::Scratch model;
};

BpeTokenizer::BpeTokenizer(Parts parts)
    : normalizer_(std::move(parts.normalizer)),
      pre_tokenizer_(std::move(parts.pre_tokenizer)),
      model_(std::move(parts.model)),
      post_processor_(std::move(parts.post_processor)) {
  RegexScratch scratch;
  std::string buffer;
  for (AddedToken& token : parts.added_tokens) {
    if (!token.normalized) {
      raw_tokens_.Add(token, token.content);
      continue;
    }
    token.content = std::string(normalizer_.Apply(token.content, scratch, &buffer));
    normalized_tokens_.Add(token, token.content);
  }
  FillPieces(parts.decoder, parts.added_tokens);
}

void BpeTokenizer::FillPieces(const Decoder& decoder, const std::vector<AddedToken>& added) {
  std::vector<const std::string*> tokens = model_.tokens();
  for (const AddedToken& token : added) {
    const auto needed = static_cast<size_t>(token.id) + 1;
    if (tokens.size() < needed) tokens.resize(needed, nullptr);
    tokens[token.id] = &token.content;
  }
  special_.resize(tokens.size(), false);
  for (const AddedToken& token : added) special_[token.id] = token.special;
  piece_begin_.assign(1, 0);
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (tokens[id] != nullptr) {
      const std::string bytes = decoder.Bytes(*tokens[id], /*first=*/false);
      std::string first = decoder.Bytes(*tokens[id], /*first=*/true);
      piece_bytes_ += bytes;
      if (first != bytes) first_pieces_[static_cast<int32_t>(id)] = std::move(first);
    }
    piece_begin_.push_back(piece_bytes_.size());
  }
}

std::vector<int32_t> BpeTokenizer::Encode(absl::string_view text,
                                          const EncodeOptions& options) const {
  std::string repaired;
  if (!IsValidUtf8(text)) {
    repaired = ReplaceInvalidUtf8(text);
    text = repaired;
  }
  Scratch scratch;
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3 + 8);
  if (options.add_special_tokens) ids = post_processor_.prefix;
  raw_tokens_.Cut(text, options.parse_special_tokens, [&](absl::string_view part, int32_t id) {
    if (id >= 0) {
      ids.push_back(id);
    } else {
      EncodeText(part, part.data() == text.data(), options, scratch, &ids);
    }
  });
  if (options.add_special_tokens) {
    ids.insert(ids.end(), post_processor_.suffix.begin(), post_processor_.suffix.end());
  }
  return ids;
}

void BpeTokenizer::EncodeText(absl::string_view text, bool opens_text, const EncodeOptions& options,
                              Scratch& scratch, std::vector<int32_t>* ids) const {
  std::string buffer;
  const absl::string_view normal = normalizer_.Apply(text, scratch.regex, &buffer);
  normalized_tokens_.Cut(
      normal, options.parse_special_tokens, [&](absl::string_view part, int32_t id) {
        if (id >= 0) {
          ids->push_back(id);
          return;
        }
        const TextPiece piece{part, opens_text && part.data() == normal.data()};
        pre_tokenizer_.Cut(piece, scratch.regex,
                           [&](TextPiece word) { model_.Tokenize(word.text, scratch.model, ids); });
      });
}

void BpeTokenizer::AppendBytes(int32_t id, bool first, std::string* out) const {
  if (id < 0 || id >= vocab_size()) return;
  if (first) {
    const auto it = first_pieces_.find(id);
    if (it != first_pieces_.end()) {
      *out += it->second;
      return;
    }
  }
  out->append(piece_bytes_, piece_begin_[id], piece_begin_[id + 1] - piece_begin_[id]);
}

Encoding BpeTokenizer::EncodeInput(absl::string_view text, std::optional<absl::string_view> pair,
                                   size_t max_tokens) const {
  const EncodeOptions plain{.add_special_tokens = false, .parse_special_tokens = true};
  std::vector<int32_t> first = Encode(text, plain), second;
  if (pair) second = Encode(*pair, plain);
  const size_t special = post_processor_.prefix.size() + post_processor_.suffix.size();
  while (max_tokens > 0 && !(first.empty() && second.empty()) &&
         first.size() + second.size() + special > max_tokens)
    (second.size() > first.size() ? second : first).pop_back();
  Encoding out;
  out.ids = post_processor_.prefix;
  out.ids.insert(out.ids.end(), first.begin(), first.end());
  out.ids.insert(out.ids.end(), second.begin(), second.end());
  out.ids.insert(out.ids.end(), post_processor_.suffix.begin(), post_processor_.suffix.end());
  out.types.assign(out.ids.size(), 0);
  return out;
}

std::string BpeTokenizer::Decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const {
  std::string out;
  bool first = true;
  for (const int32_t id : ids) {
    if (skip_special_tokens && IsSpecial(id)) continue;
    AppendBytes(id, first, &out);
    first = false;
  }
  return out;
}

std::string BpeTokenizer::Bytes(int32_t id, bool first) const {
  std::string out;
  AppendBytes(id, first, &out);
  return out;
}

bool BpeTokenizer::IsSpecial(int32_t id) const {
  return id >= 0 && id < vocab_size() && special_[id];
}

}  // namespace penstock
