#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/text/vocabulary.h"

namespace penstock {

// Bounds the time per character of models that look for the longest token. Real ones have less than
// a hundred bytes.
inline constexpr size_t kMaxTokenBytes = 4096;

// A vocabulary and the way it makes tokens of a word: the "model" of a tokenizer.json. Immutable,
// safe to share.
class SubwordModel {
 public:
  // Memory of one thread's calls, kept to save allocations; only for the model that made it.
  class Scratch {
   public:
    virtual ~Scratch() = default;
  };

  virtual ~SubwordModel() = default;

  virtual std::unique_ptr<Scratch> NewScratch() const = 0;
  // Appends the tokens of a word (not empty, valid UTF-8). The time is linear in the word's length
  // but for a bounded factor, or n log n.
  virtual void Tokenize(absl::string_view word, Scratch& scratch,
                        std::vector<int32_t>* ids) const = 0;

  // Tokens as the vocabulary spells them.
  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  explicit SubwordModel(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}

 private:
  Vocabulary vocabulary_;
};

}  // namespace penstock
