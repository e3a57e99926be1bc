#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/text/byte_trie.h"
#include "server/text/subword_model.h"

namespace penstock {

// What a WordPiece model is made of.
struct WordPieceSpec {
  std::vector<std::pair<std::string, int32_t>> vocab;  // token, id
  std::string unk_token = "[UNK]";
  std::string continuing_prefix = "##";  // how tokens begin that go on with a word
  int32_t max_word_chars = 100;          // longer words are unknown
};

// WordPiece (Schuster and Nakajima 2012, as in BERT): the longest token that begins the word, then
// the longest one that goes on with it, and so on; a word that this does not cover is one unknown
// token. Immutable after Build, safe to share.
class WordPieceModel final : public SubwordModel {
 public:
  // Errors name the field and the token. `spec` is given up.
  static absl::StatusOr<std::unique_ptr<WordPieceModel>> Build(WordPieceSpec spec);

  std::unique_ptr<Scratch> NewScratch() const override { return std::make_unique<Scratch>(); }
  // In the worst case the word's length times the longest token's.
  void Tokenize(absl::string_view word, Scratch& scratch, std::vector<int32_t>* ids) const override;

 private:
  WordPieceModel(Vocabulary vocabulary, const WordPieceSpec& spec);

  ByteTrie beginnings_;     // all tokens
  ByteTrie continuations_;  // those with the prefix, without it
  int32_t unk_id_;
  size_t max_word_chars_;
};

}  // namespace penstock
