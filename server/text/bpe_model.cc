#include "server/text/bpe_model.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/text/byte_alphabet.h"
#include "server/text/unicode.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

constexpr int32_t kNoRank = std::numeric_limits<int32_t>::max();
// Up to here scanning for the best pair beats keeping a heap.
constexpr size_t kShortWord = 48;
constexpr char kSpaceMark[] = "\xE2\x96\x81";  // U+2581, how SentencePiece spells a space
constexpr size_t kSpaceMarkBytes = sizeof(kSpaceMark) - 1;

// Where the first space mark begins that follows something else than a space mark; the size if
// none.
size_t EndOfMarkedWord(absl::string_view text) {
  size_t at = 0;
  while (absl::StartsWith(text.substr(at), kSpaceMark)) at += kSpaceMarkBytes;
  return std::min(text.find(kSpaceMark, at), text.size());
}

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

absl::Status ModelError(absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat("BPE: ", message));
}

}  // namespace

struct BpeModel::WordScratch final : SubwordModel::Scratch {
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

BpeModel::BpeModel(Vocabulary vocabulary, BpeSpec spec)
    : SubwordModel(std::move(vocabulary)), spec_(std::move(spec)) {}

absl::StatusOr<std::unique_ptr<BpeModel>> BpeModel::Build(BpeSpec spec) {
  auto vocabulary = Vocabulary::Build(std::exchange(spec.vocab, {}));
  if (!vocabulary.ok()) return ModelError(vocabulary.status().message());
  auto model = absl::WrapUnique(new BpeModel(*std::move(vocabulary), std::move(spec)));
  RETURN_IF_ERROR(model->IndexMerges());
  RETURN_IF_ERROR(model->IndexCharacters());
  model->FindWholeWords();
  model->cuts_at_marks_ = model->CanCutAtMarks();
  return model;
}

std::unique_ptr<SubwordModel::Scratch> BpeModel::NewScratch() const {
  return std::make_unique<WordScratch>();
}

absl::Status BpeModel::IndexMerges() {
  merges_.reserve(spec_.merges.size());
  int32_t rank = 0;
  for (const auto& [left, right] : spec_.merges) {
    const int32_t left_id = Find(left);
    const int32_t right_id = Find(right);
    const int32_t merged = Find(absl::StrCat(left, right));
    if (left_id < 0 || right_id < 0 || merged < 0) {
      return ModelError(absl::StrCat("merge ", rank, " ('", left, "' '", right,
                                     "') has a token that the vocabulary lacks"));
    }
    merges_.insert_or_assign(PairKey(left_id, right_id), Merge{rank++, merged});
  }
  spec_.merges = {};
  return absl::OkStatus();
}

absl::Status BpeModel::IndexCharacters() {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string character(1, static_cast<char>(byte));
    const bool whole = spec_.byte_level || byte < 0x80;
    byte_ids_[byte] = whole ? Find(spec_.byte_level ? ToByteAlphabet(character) : character) : -1;
    fallback_ids_[byte] = spec_.byte_fallback ? Find(absl::StrFormat("<0x%02X>", byte)) : -1;
  }
  if (spec_.unk_token.empty()) return absl::OkStatus();
  unk_id_ = Find(spec_.unk_token);
  if (unk_id_ < 0) {
    return ModelError(absl::StrCat("the vocabulary lacks unk_token '", spec_.unk_token, "'"));
  }
  return absl::OkStatus();
}

// Most words of a text are tokens: where merging a token's own characters gives the token back, a
// lookup of the whole word replaces the merging.
void BpeModel::FindWholeWords() {
  WordScratch scratch;
  const std::vector<Vocabulary::Entry>& entries = vocabulary().entries();
  words_.resize(entries.size());
  word_ids_.reserve(entries.size());
  for (size_t i = 0; i < words_.size(); ++i) {
    const auto& [token, id] = entries[i];
    if (!spec_.byte_level) {
      words_[i] = token;
    } else if (!FromByteAlphabet(token, &words_[i])) {
      continue;  // can't be spelled by a word
    }
    if (words_[i].empty()) continue;
    if (!spec_.ignore_merges) {
      MergeWord(words_[i], scratch);
      if (scratch.ids.size() != 1 || scratch.ids[0] != id) continue;
    }
    word_ids_[words_[i]] = id;
    longest_word_ = std::max(longest_word_, words_[i].size());
  }
}

const BpeModel::Merge* BpeModel::FindMerge(int32_t left, int32_t right) const {
  const auto it = merges_.find(PairKey(left, right));
  return it == merges_.end() ? nullptr : &it->second;
}

// SentencePiece-style models see whole texts as one word. Where no merge makes a token that has a
// space mark behind another character, nothing is ever merged across that place, and the text can
// be cut there without changing a token.
bool BpeModel::CanCutAtMarks() const {
  if (spec_.byte_level || spec_.ignore_merges || Find(kSpaceMark) < 0) return false;
  return std::none_of(merges_.begin(), merges_.end(), [this](const auto& entry) {
    const std::string& token = *vocabulary().tokens()[entry.second.id];
    return EndOfMarkedWord(token) < token.size();
  });
}

void BpeModel::Tokenize(absl::string_view word, Scratch& any_scratch,
                        std::vector<int32_t>* ids) const {
  auto& scratch = static_cast<WordScratch&>(any_scratch);
  while (cuts_at_marks_ && !word.empty()) {
    const size_t end = EndOfMarkedWord(word);
    TokenizeWord(word.substr(0, end), scratch, ids);
    word.remove_prefix(end);
  }
  if (!word.empty()) TokenizeWord(word, scratch, ids);
}

void BpeModel::TokenizeWord(absl::string_view word, WordScratch& scratch,
                            std::vector<int32_t>* ids) const {
  if (word.size() <= longest_word_) {
    const auto it = word_ids_.find(word);
    if (it != word_ids_.end()) {
      ids->push_back(it->second);
      return;
    }
  }
  MergeWord(word, scratch);
  ids->insert(ids->end(), scratch.ids.begin(), scratch.ids.end());
}

void BpeModel::MergeWord(absl::string_view word, WordScratch& scratch) const {
  scratch.ids.clear();
  AppendSymbols(word, scratch);
  if (scratch.ids.size() <= kShortWord) {
    MergeShort(scratch);
  } else {
    MergeLong(scratch);
  }
}

void BpeModel::AppendSymbols(absl::string_view word, WordScratch& scratch) const {
  std::vector<int32_t>& ids = scratch.ids;
  bool unknown = false;  // an unknown character's token is due
  for (size_t i = 0; i < word.size();) {
    const size_t length = spec_.byte_level ? 1 : Utf8Length(word[i]);
    const absl::string_view character = word.substr(i, length);
    i += length;
    const int32_t id =
        length == 1 ? byte_ids_[static_cast<unsigned char>(character[0])] : Find(character);
    if (id >= 0) {
      if (unknown) ids.push_back(unk_id_);
      unknown = false;
      ids.push_back(id);
    } else if (!AppendFallback(character, scratch) && unk_id_ >= 0) {
      // As in the reference: the bytes of a fallback overtake an unknown token that is due.
      if (unknown && !spec_.fuse_unk) ids.push_back(unk_id_);
      unknown = true;
    }
  }
  if (unknown) ids.push_back(unk_id_);
}

// One token per byte, if all of them exist.
bool BpeModel::AppendFallback(absl::string_view character, WordScratch& scratch) const {
  std::string alphabet;
  if (spec_.byte_level) {  // falls back on the bytes of the byte's spelling
    alphabet = ToByteAlphabet(character);
    character = alphabet;
  }
  for (const char c : character) {
    if (fallback_ids_[static_cast<unsigned char>(c)] < 0) return false;
  }
  for (const char c : character) {
    scratch.ids.push_back(fallback_ids_[static_cast<unsigned char>(c)]);
  }
  return true;
}

void BpeModel::MergeShort(WordScratch& scratch) const {
  std::vector<int32_t>& ids = scratch.ids;
  std::vector<int32_t>& ranks = scratch.ranks;
  const auto rank_at = [&](size_t i) {
    if (i + 1 >= ids.size()) return kNoRank;
    const Merge* merge = FindMerge(ids[i], ids[i + 1]);
    return merge == nullptr ? kNoRank : merge->rank;
  };
  ranks.resize(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) ranks[i] = rank_at(i);
  while (ids.size() > 1) {
    const auto best = std::min_element(ranks.begin(), ranks.end());
    if (*best == kNoRank) return;
    const size_t i = best - ranks.begin();
    ids[i] = FindMerge(ids[i], ids[i + 1])->id;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(i) + 1);
    ranks.erase(best + 1);
    ranks[i] = rank_at(i);
    if (i > 0) ranks[i - 1] = rank_at(i - 1);
  }
}

void BpeModel::MergeLong(WordScratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  const auto count = static_cast<int32_t>(scratch.ids.size());
  const auto later = [](const WordScratch::Candidate& a, const WordScratch::Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
  };
  const auto consider = [&](int32_t left) {
    if (left < 0 || symbols[left].next < 0) return;
    const Merge* merge = FindMerge(symbols[left].id, symbols[symbols[left].next].id);
    if (merge == nullptr) return;
    heap.push_back({merge->rank, left, merge->id});
    std::push_heap(heap.begin(), heap.end(), later);
  };
  symbols.clear();
  heap.clear();
  for (int32_t i = 0; i < count; ++i) {
    symbols.push_back({scratch.ids[i], i - 1, i + 1 < count ? i + 1 : -1, false});
  }
  for (int32_t i = 0; i < count; ++i) consider(i);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const WordScratch::Candidate best = heap.back();
    heap.pop_back();
    WordScratch::Symbol& left = symbols[best.position];
    if (left.gone || left.next < 0) continue;
    WordScratch::Symbol& right = symbols[left.next];
    const Merge* merge = FindMerge(left.id, right.id);
    if (merge == nullptr || merge->id != best.id) continue;  // the pair has changed since
    left.id = best.id;
    left.next = right.next;
    right.gone = true;
    if (right.next >= 0) symbols[right.next].previous = best.position;
    consider(left.previous);
    consider(best.position);
  }
  scratch.ids.clear();
  for (int32_t i = 0; i >= 0 && i < count; i = symbols[i].next) {
    scratch.ids.push_back(symbols[i].id);
    if (symbols[i].next < 0) break;
  }
}

}  // namespace penstock
