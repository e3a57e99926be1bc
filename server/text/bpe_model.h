#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/text/subword_model.h"

namespace penstock {

// What a byte-pair encoding is made of.
struct BpeSpec {
  std::vector<std::pair<std::string, int32_t>> vocab;       // token, id
  std::vector<std::pair<std::string, std::string>> merges;  // the most important first
  std::string unk_token;       // "": characters without a token are left out
  bool fuse_unk = false;       // neighbouring unknown characters become one unknown token
  bool byte_fallback = false;  // characters without a token become tokens "<0x00>" ... "<0xFF>"
  bool ignore_merges = false;  // a word that is a token becomes it, whatever the merges say
  bool byte_level = false;     // the vocabulary is written in the byte alphabet, words are bytes
};

// Byte-pair encoding (Gage 1994; Sennrich et al. 2016): the pair with the lowest rank is merged
// first, the leftmost of equals. Immutable after Build, safe to share.
class BpeModel final : public SubwordModel {
 public:
  // Errors name the field and the token. `spec` is given up.
  static absl::StatusOr<std::unique_ptr<BpeModel>> Build(BpeSpec spec);

  std::unique_ptr<Scratch> NewScratch() const override;
  // O(n log n) in the word's length.
  void Tokenize(absl::string_view word, Scratch& scratch, std::vector<int32_t>* ids) const override;

 private:
  struct WordScratch;
  struct Merge {
    int32_t rank;
    int32_t id;  // of the merged token
  };

  BpeModel(Vocabulary vocabulary, BpeSpec spec);
  absl::Status IndexMerges();
  absl::Status IndexCharacters();
  void FindWholeWords();
  bool CanCutAtMarks() const;
  void TokenizeWord(absl::string_view word, WordScratch& scratch, std::vector<int32_t>* ids) const;
  const Merge* FindMerge(int32_t left, int32_t right) const;
  void AppendSymbols(absl::string_view word, WordScratch& scratch) const;
  bool AppendFallback(absl::string_view character, WordScratch& scratch) const;
  void MergeShort(WordScratch& scratch) const;
  void MergeLong(WordScratch& scratch) const;
  void MergeWord(absl::string_view word, WordScratch& scratch) const;

  int32_t Find(absl::string_view token) const { return vocabulary().Find(token); }

  BpeSpec spec_;                    // but for the vocabulary
  std::vector<std::string> words_;  // by position in the vocabulary: the token as a word
  absl::flat_hash_map<absl::string_view, int32_t> word_ids_;  // words that are one token
  absl::flat_hash_map<uint64_t, Merge> merges_;               // by left id << 32 | right id
  std::array<int32_t, 256> byte_ids_{};      // of bytes (byte-level) or ASCII; -1: none
  std::array<int32_t, 256> fallback_ids_{};  // of "<0xHH>"; -1: none
  int32_t unk_id_ = -1;
  bool cuts_at_marks_ = false;  // see CanCutAtMarks
  size_t longest_word_ = 0;     // no token is longer, in bytes
};

}  // namespace penstock
