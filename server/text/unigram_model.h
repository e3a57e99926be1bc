#pragma once

#include <array>
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

// What a unigram language model is made of.
struct UnigramSpec {
  std::vector<std::pair<std::string, double>> vocab;  // by id: token, logarithm of its probability
  int32_t unk_id = -1;
  bool byte_fallback = false;  // what has no token becomes tokens "<0x00>" ... "<0xFF>"
};

// The unigram language model (Kudo 2018, SentencePiece's): the tokens whose scores have the largest
// sum, of equals the one that was found first from the left. Neighbouring characters without a
// token are one unknown token. Immutable after Build, safe to share.
class UnigramModel final : public SubwordModel {
 public:
  // Errors name the field and the token. `spec` is given up.
  static absl::StatusOr<std::unique_ptr<UnigramModel>> Build(UnigramSpec spec);

  std::unique_ptr<Scratch> NewScratch() const override;
  // In the worst case the word's length times the longest token's.
  void Tokenize(absl::string_view word, Scratch& scratch, std::vector<int32_t>* ids) const override;

 private:
  struct WordScratch;
  UnigramModel(Vocabulary vocabulary, std::vector<double> scores, int32_t unk_id,
               bool byte_fallback);
  void FindBestPath(absl::string_view word, WordScratch& scratch) const;
  void AppendUnknown(absl::string_view text, std::vector<int32_t>* ids) const;

  ByteTrie trie_;
  std::vector<double> scores_;  // by id
  int32_t unk_id_;
  double unk_score_;
  std::array<int32_t, 256> fallback_ids_{};  // of "<0xHH>"; -1: none
};

}  // namespace penstock
