#include "server/text/unigram_model.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/text/unicode.h"

namespace penstock {
namespace {

constexpr double kUnknownPenalty = 10;  // below the worst token

ByteTrie TrieOf(const Vocabulary& vocabulary) {
  return ByteTrie({vocabulary.entries().begin(), vocabulary.entries().end()});
}

absl::Status ModelError(absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat("Unigram: ", message));
}

}  // namespace

struct UnigramModel::WordScratch final : SubwordModel::Scratch {
  // The best way to a place in the word.
  struct Arrival {
    double score;
    int32_t id;       // of its last token
    uint32_t length;  // of its last token, in bytes; 0: no way leads here
  };
  struct Span {
    size_t begin, end;
    int32_t id;
  };
  std::vector<Arrival> arrivals;  // [bytes of the word + 1]
  std::vector<Span> path;         // backwards
};

UnigramModel::UnigramModel(Vocabulary tokens, std::vector<double> scores, int32_t unk_id,
                           bool byte_fallback)
    : SubwordModel(std::move(tokens)),
      trie_(TrieOf(vocabulary())),
      scores_(std::move(scores)),
      unk_id_(unk_id),
      unk_score_(*std::min_element(scores_.begin(), scores_.end()) - kUnknownPenalty) {
  for (int byte = 0; byte < 256; ++byte) {
    fallback_ids_[byte] = byte_fallback ? vocabulary().Find(absl::StrFormat("<0x%02X>", byte)) : -1;
  }
}

absl::StatusOr<std::unique_ptr<UnigramModel>> UnigramModel::Build(UnigramSpec spec) {
  std::vector<Vocabulary::Entry> entries;
  std::vector<double> scores;
  for (auto& [token, score] : spec.vocab) {
    entries.emplace_back(std::move(token), static_cast<int32_t>(entries.size()));
    scores.push_back(score);
  }
  auto vocabulary = Vocabulary::Build(std::move(entries), /*allow_repeated=*/true);
  if (!vocabulary.ok()) return ModelError(vocabulary.status().message());
  if (vocabulary->longest() > kMaxTokenBytes) {
    return ModelError(absl::StrCat("a token is longer than ", kMaxTokenBytes, " bytes"));
  }
  if (spec.unk_id < 0 || static_cast<size_t>(spec.unk_id) >= scores.size()) {
    return ModelError("field 'unk_id' is not an id of the vocabulary");
  }
  return absl::WrapUnique(
      new UnigramModel(*std::move(vocabulary), std::move(scores), spec.unk_id, spec.byte_fallback));
}

std::unique_ptr<SubwordModel::Scratch> UnigramModel::NewScratch() const {
  return std::make_unique<WordScratch>();
}

// Viterbi: from every character on, all tokens that begin there.
void UnigramModel::FindBestPath(absl::string_view word, WordScratch& scratch) const {
  auto& arrivals = scratch.arrivals;
  arrivals.assign(word.size() + 1, {0, 0, 0});
  const auto arrive = [&arrivals](size_t begin, size_t end, double score, int32_t id) {
    score += arrivals[begin].score;
    auto& arrival = arrivals[end];
    if (arrival.length > 0 && score <= arrival.score) return;
    arrival = {score, id, static_cast<uint32_t>(end - begin)};
  };
  for (size_t begin = 0; begin < word.size();) {
    const size_t next = begin + Utf8Length(word[begin]);
    bool character_known = false;
    uint32_t node = ByteTrie::kRoot;
    for (size_t end = begin; end < word.size();) {
      node = trie_.Child(node, word[end++]);
      if (node == ByteTrie::kRoot) break;
      const int32_t id = trie_.value(node);
      if (id < 0) continue;
      arrive(begin, end, scores_[id], id);
      character_known = character_known || end == next;
    }
    if (!character_known) arrive(begin, next, unk_score_, unk_id_);
    begin = next;
  }
}

void UnigramModel::Tokenize(absl::string_view word, Scratch& any_scratch,
                            std::vector<int32_t>* ids) const {
  auto& scratch = static_cast<WordScratch&>(any_scratch);
  FindBestPath(word, scratch);
  scratch.path.clear();
  for (size_t end = word.size(); end > 0;) {
    const auto& arrival = scratch.arrivals[end];
    const size_t begin = end - arrival.length;
    const bool unknown = arrival.id == unk_id_;
    if (unknown && !scratch.path.empty() && scratch.path.back().id == unk_id_) {
      scratch.path.back().begin = begin;
    } else {
      scratch.path.push_back({begin, end, arrival.id});
    }
    end = begin;
  }
  for (auto span = scratch.path.rbegin(); span != scratch.path.rend(); ++span) {
    if (span->id != unk_id_) {
      ids->push_back(span->id);
    } else {
      AppendUnknown(word.substr(span->begin, span->end - span->begin), ids);
    }
  }
}

// Unknown characters: together they may be a token after all, or each of their bytes is one.
void UnigramModel::AppendUnknown(absl::string_view text, std::vector<int32_t>* ids) const {
  const int32_t id = vocabulary().Find(text);
  if (id >= 0) return ids->push_back(id);
  const bool has_bytes = std::all_of(text.begin(), text.end(), [this](char byte) {
    return fallback_ids_[static_cast<unsigned char>(byte)] >= 0;
  });
  if (!has_bytes) return ids->push_back(unk_id_);
  for (const char byte : text) ids->push_back(fallback_ids_[static_cast<unsigned char>(byte)]);
}

}  // namespace penstock
