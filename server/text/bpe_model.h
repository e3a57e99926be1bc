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
class BpeModel {
 public:
  // Memory of one thread's calls, kept to save allocations.
  struct Scratch;

  // Errors name the field and the token. `spec` is given up.
  static absl::StatusOr<BpeModel> Build(BpeSpec spec);
  BpeModel(BpeModel&&) noexcept;
  BpeModel& operator=(BpeModel&&) noexcept;
  ~BpeModel();

  // Appends the tokens of a not empty word. O(n log n) in the word's length.
  void Tokenize(absl::string_view word, Scratch& scratch, std::vector<int32_t>* ids) const;

  // The id of a token as the vocabulary spells it; -1 when there is none.
  int32_t Find(absl::string_view token) const;
  // Tokens by id, as the vocabulary spells them; null where no token has the id.
  const std::vector<const std::string*>& tokens() const { return tokens_; }
  // How many tokens the vocabulary has; ids may have gaps.
  size_t size() const { return spec_.vocab.size(); }

 private:
  struct Merge {
    int32_t rank;
    int32_t id;  // of the merged token
  };

  BpeModel();
  absl::Status IndexVocab();
  absl::Status IndexMerges();
  absl::Status IndexCharacters();
  void FindWholeWords();
  bool CanCutAtMarks() const;
  void TokenizeWord(absl::string_view word, Scratch& scratch, std::vector<int32_t>* ids) const;
  const Merge* FindMerge(int32_t left, int32_t right) const;
  void AppendSymbols(absl::string_view word, Scratch& scratch) const;
  bool AppendFallback(absl::string_view character, Scratch& scratch) const;
  void MergeShort(Scratch& scratch) const;
  void MergeLong(Scratch& scratch) const;
  void MergeWord(absl::string_view word, Scratch& scratch) const;

  BpeSpec spec_;
  std::vector<const std::string*> tokens_;
  std::vector<std::string> words_;  // by position in the vocabulary: the token as a word
  absl::flat_hash_map<absl::string_view, int32_t> ids_;       // by spelling
  absl::flat_hash_map<absl::string_view, int32_t> word_ids_;  // words that are one token
  absl::flat_hash_map<uint64_t, Merge> merges_;               // by left id << 32 | right id
  std::array<int32_t, 256> byte_ids_{};      // of bytes (byte-level) or ASCII; -1: none
  std::array<int32_t, 256> fallback_ids_{};  // of "<0xHH>"; -1: none
  int32_t unk_id_ = -1;
  bool cuts_at_marks_ = false;  // see CanCutAtMarks
  size_t longest_word_ = 0;     // no token is longer, in bytes
};

struct BpeModel::Scratch {
  struct Symbol {
    int32_t id;
    int32_t previous, next;  // positions; -1: none
    bool gone;               // merged into the one before it
  };
  struct Candidate {
    int32_t rank, position, id;
  };
  std::vector<int32_t> ids;    // the word's symbols
  std::vector<int32_t> ranks;  // of each symbol with its right neighbour
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
};

}  // namespace penstock
