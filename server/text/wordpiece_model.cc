#include "server/text/wordpiece_model.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/text/unicode.h"

namespace penstock {
namespace {

// The tokens that begin with `prefix`, without it.
ByteTrie WithoutPrefix(const Vocabulary& vocabulary, absl::string_view prefix) {
  std::vector<std::pair<absl::string_view, int32_t>> entries;
  for (const auto& [token, id] : vocabulary.entries()) {
    absl::string_view rest = token;
    if (absl::ConsumePrefix(&rest, prefix)) entries.emplace_back(rest, id);
  }
  return ByteTrie(std::move(entries));
}

absl::Status ModelError(absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat("WordPiece: ", message));
}

}  // namespace

WordPieceModel::WordPieceModel(Vocabulary tokens, const WordPieceSpec& spec)
    : SubwordModel(std::move(tokens)),
      beginnings_(WithoutPrefix(vocabulary(), "")),
      continuations_(WithoutPrefix(vocabulary(), spec.continuing_prefix)),
      unk_id_(vocabulary().Find(spec.unk_token)),
      max_word_chars_(static_cast<size_t>(spec.max_word_chars)) {}

absl::StatusOr<std::unique_ptr<WordPieceModel>> WordPieceModel::Build(WordPieceSpec spec) {
  auto vocabulary = Vocabulary::Build(std::move(spec.vocab));
  if (!vocabulary.ok()) return ModelError(vocabulary.status().message());
  if (vocabulary->longest() > kMaxTokenBytes) {
    return ModelError(absl::StrCat("a token is longer than ", kMaxTokenBytes, " bytes"));
  }
  if (vocabulary->Find(spec.unk_token) < 0) {
    return ModelError(absl::StrCat("the vocabulary lacks unk_token '", spec.unk_token, "'"));
  }
  return absl::WrapUnique(new WordPieceModel(*std::move(vocabulary), spec));
}

void WordPieceModel::Tokenize(absl::string_view word, Scratch&, std::vector<int32_t>* ids) const {
  const size_t before = ids->size();
  bool known = CountUtf8(word) <= max_word_chars_;
  for (size_t begin = 0; known && begin < word.size();) {
    const ByteTrie& trie = begin == 0 ? beginnings_ : continuations_;
    size_t end = begin;
    int32_t id = -1;
    uint32_t node = ByteTrie::kRoot;
    for (size_t i = begin; i < word.size(); ++i) {
      node = trie.Child(node, word[i]);
      if (node == ByteTrie::kRoot) break;
      if (trie.value(node) < 0) continue;
      id = trie.value(node);
      end = i + 1;
    }
    known = id >= 0;
    ids->push_back(id);
    begin = end;
  }
  if (known) return;
  ids->resize(before);
  ids->push_back(unk_id_);
}

}  // namespace penstock
