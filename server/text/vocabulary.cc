#include "server/text/vocabulary.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace penstock {

absl::StatusOr<Vocabulary> Vocabulary::Build(std::vector<Entry> entries, bool allow_repeated) {
  if (entries.empty()) return absl::InvalidArgumentError("the vocabulary is empty");
  Vocabulary vocabulary;
  vocabulary.entries_ = std::move(entries);
  vocabulary.ids_.reserve(vocabulary.entries_.size());
  int32_t largest = -1;
  for (const auto& [token, id] : vocabulary.entries_) {
    const bool is_new = vocabulary.ids_.insert_or_assign(token, id).second;
    if (!is_new && !allow_repeated) {
      return absl::InvalidArgumentError(absl::StrCat("the vocabulary has '", token, "' twice"));
    }
    largest = std::max(largest, id);
    vocabulary.longest_ = std::max(vocabulary.longest_, token.size());
  }
  vocabulary.tokens_.assign(static_cast<size_t>(largest) + 1, nullptr);
  for (const auto& [token, id] : vocabulary.entries_) vocabulary.tokens_[id] = &token;
  return vocabulary;
}

int32_t Vocabulary::Find(absl::string_view token) const {
  const auto it = ids_.find(token);
  return it == ids_.end() ? -1 : it->second;
}

}  // namespace penstock
