#pragma once

#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "server/text/regex.h"

namespace penstock {

// A part of a text on its way to becoming words.
struct TextPiece {
  absl::string_view text;  // valid UTF-8, not empty
  bool opens_text;         // nothing came before it in what the user wrote
};

// The "pre_tokenizer" of a tokenizer.json: cuts a text into the words that the model works on one
// by one. Immutable, safe to share.
class PreTokenizer {
 public:
  using Visit = absl::FunctionRef<void(TextPiece)>;

  // One way of cutting.
  class Step {
   public:
    virtual ~Step() = default;
    // Visits the parts in order; empty ones may be among them. They live as long as the call.
    virtual void Cut(TextPiece piece, RegexScratch& scratch, Visit visit) const = 0;
  };

  PreTokenizer() = default;  // the whole text is one word
  // `node` may be null. Unknown types are errors that name them.
  static absl::StatusOr<PreTokenizer> FromJson(const nlohmann::json* node);

  // Visits the words of `piece` in order; they live as long as the call.
  void Cut(TextPiece piece, RegexScratch& scratch, Visit visit) const {
    Run(0, piece, scratch, visit);
  }

  // The model's vocabulary is written in the byte alphabet (byte_alphabet.h) while the words come
  // as plain text: the last step was ByteLevel.
  bool byte_level() const { return byte_level_; }
  // Makes the words come in the byte alphabet instead.
  void SpellOutBytes();

 private:
  absl::Status Add(const nlohmann::json& node, int depth);
  void Run(size_t step, TextPiece piece, RegexScratch& scratch, Visit visit) const;

  std::vector<std::unique_ptr<Step>> steps_;
  bool byte_level_ = false;
};

}  // namespace penstock
