#include "server/text/pipeline_tokenizer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "server/text/unicode.h"

namespace penstock {
namespace {

// The reference's "longest_first": the shorter text keeps its tokens up to half of the limit. Of
// equals the second counts as the longer one.
void TruncateLongestFirst(size_t limit, std::vector<int32_t>* first, std::vector<int32_t>* second) {
  if (first->size() + second->size() <= limit) return;
  const bool first_is_longer = first->size() > second->size();
  std::vector<int32_t>* longer = first_is_longer ? first : second;
  std::vector<int32_t>* shorter = first_is_longer ? second : first;
  shorter->resize(std::min(shorter->size(), limit / 2));
  longer->resize(limit - shorter->size());
}

}  // namespace

struct PipelineTokenizer::Scratch {
  RegexScratch regex;
  std::unique_ptr<SubwordModel::Scratch> model;
  bool parse_special;
};

PipelineTokenizer::PipelineTokenizer(Parts parts)
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

void PipelineTokenizer::FillPieces(const Decoder& decoder, const std::vector<AddedToken>& added) {
  std::vector<const std::string*> tokens = model_->vocabulary().tokens();
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

std::vector<int32_t> PipelineTokenizer::Encode(absl::string_view text,
                                               const EncodeOptions& options) const {
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3 + 8);
  for (const PostProcessor::Piece& piece : post_processor_.single()) {
    if (piece.text == 0) {
      EncodeWhole(text, options.parse_special_tokens, &ids);
    } else if (options.add_special_tokens) {
      ids.push_back(piece.id);
    }
  }
  return ids;
}

void PipelineTokenizer::EncodeWhole(absl::string_view text, bool parse_special,
                                    std::vector<int32_t>* ids) const {
  std::string repaired;
  if (!IsValidUtf8(text)) {
    repaired = ReplaceInvalidUtf8(text);
    text = repaired;
  }
  Scratch scratch{{}, model_->NewScratch(), parse_special};
  raw_tokens_.Cut(text, parse_special, [&](absl::string_view part, int32_t id) {
    if (id >= 0) {
      ids->push_back(id);
    } else {
      EncodePart(part, part.data() == text.data(), scratch, ids);
    }
  });
}

void PipelineTokenizer::EncodePart(absl::string_view text, bool opens_text, Scratch& scratch,
                                   std::vector<int32_t>* ids) const {
  std::string buffer;
  bool keeps_beginning = true;
  const absl::string_view normal =
      normalizer_.Apply(text, scratch.regex, &buffer, &keeps_beginning);
  opens_text = opens_text && keeps_beginning;
  normalized_tokens_.Cut(normal, scratch.parse_special, [&](absl::string_view part, int32_t id) {
    if (id >= 0) {
      ids->push_back(id);
      return;
    }
    const TextPiece piece{part, opens_text && part.data() == normal.data()};
    pre_tokenizer_.Cut(piece, scratch.regex,
                       [&](TextPiece word) { model_->Tokenize(word.text, *scratch.model, ids); });
  });
}

void PipelineTokenizer::AppendBytes(int32_t id, bool first, std::string* out) const {
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

Encoding PipelineTokenizer::EncodeInput(absl::string_view text,
                                        std::optional<absl::string_view> pair,
                                        size_t max_tokens) const {
  const PostProcessor::Template& around = pair ? post_processor_.pair() : post_processor_.single();
  const size_t special = around.size() - (pair ? 2 : 1);
  const size_t limit = max_tokens == 0 ? std::numeric_limits<size_t>::max() : max_tokens;
  std::vector<int32_t> texts[2];
  EncodeWhole(text, /*parse_special=*/true, &texts[0]);
  if (pair) EncodeWhole(*pair, /*parse_special=*/true, &texts[1]);
  TruncateLongestFirst(limit - std::min(limit, special), &texts[0], &texts[1]);
  Encoding out;
  for (const PostProcessor::Piece& piece : around) {
    if (piece.text == PostProcessor::kSpecial) {
      out.ids.push_back(piece.id);
    } else {
      const std::vector<int32_t>& ids = texts[piece.text];
      out.ids.insert(out.ids.end(), ids.begin(), ids.end());
    }
    out.types.resize(out.ids.size(), piece.type);
  }
  return out;
}

std::string PipelineTokenizer::Decode(const std::vector<int32_t>& ids,
                                      bool skip_special_tokens) const {
  std::string out;
  bool first = true;
  for (const int32_t id : ids) {
    if (skip_special_tokens && IsSpecial(id)) continue;
    AppendBytes(id, first, &out);
    first = false;
  }
  return out;
}

std::string PipelineTokenizer::Bytes(int32_t id, bool first) const {
  std::string out;
  AppendBytes(id, first, &out);
  return out;
}

bool PipelineTokenizer::IsSpecial(int32_t id) const {
  return id >= 0 && id < vocab_size() && special_[id];
}

}  // namespace penstock
