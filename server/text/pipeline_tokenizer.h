#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "server/text/added_tokens.h"
#include "server/text/decoder.h"
#include "server/text/normalizer.h"
#include "server/text/post_processor.h"
#include "server/text/pre_tokenizer.h"
#include "server/text/subword_model.h"
#include "server/text/tokenizer.h"

namespace penstock {

// The steps of the Hugging Face tokenizers library: cut out added tokens, normalize, cut out
// normalized added tokens, cut into words, make tokens of the words, add the template's tokens.
class PipelineTokenizer final : public Tokenizer {
 public:
  struct Parts {
    Normalizer normalizer;
    PreTokenizer pre_tokenizer;
    std::unique_ptr<SubwordModel> model;
    PostProcessor post_processor;
    Decoder decoder;
    std::vector<AddedToken> added_tokens;  // their ids are taken
  };
  explicit PipelineTokenizer(Parts parts);

  std::vector<int32_t> Encode(absl::string_view text, const EncodeOptions& options) const override;
  Encoding EncodeInput(absl::string_view text, std::optional<absl::string_view> pair,
                       size_t max_tokens) const override;
  std::string Decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const override;
  std::string Bytes(int32_t id, bool first) const override;
  bool IsSpecial(int32_t id) const override;
  int32_t vocab_size() const override { return static_cast<int32_t>(special_.size()); }

 private:
  struct Scratch;
  void EncodeWhole(absl::string_view text, bool parse_special, std::vector<int32_t>* ids) const;
  void EncodePart(absl::string_view text, bool opens_text, Scratch& scratch,
                  std::vector<int32_t>* ids) const;
  void FillPieces(const Decoder& decoder, const std::vector<AddedToken>& added);
  void AppendBytes(int32_t id, bool first, std::string* out) const;

  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  std::unique_ptr<SubwordModel> model_;
  PostProcessor post_processor_;
  AddedTokenFinder raw_tokens_;         // looked for in the text as it comes
  AddedTokenFinder normalized_tokens_;  // looked for in the normalized text
  // By id.
  std::vector<bool> special_;
  std::string piece_bytes_;
  std::vector<size_t> piece_begin_;  // [vocab + 1], into piece_bytes_
  // Tokens whose bytes differ where they open the text.
  absl::flat_hash_map<int32_t, std::string> first_pieces_;
};

}  // namespace penstock
