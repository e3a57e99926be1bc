#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace penstock {

// What a BERT tokenizer is made of where there is no tokenizer.json.
struct BertVocab {
  std::vector<std::string> tokens;  // by id; valid UTF-8
  std::string unk_token = "[UNK]", cls_token = "[CLS]", sep_token = "[SEP]";
  std::string pad_token = "[PAD]", mask_token = "[MASK]";
  bool lowercase = true;
  bool handle_chinese_chars = true;
  nlohmann::json strip_accents;  // true, false, or null: as `lowercase`
};

// From a vocab.txt (a token per line) and the tokenizer_config.json beside it (null: none). A
// tokenizer_class that is not of BERT's kind is an error.
absl::StatusOr<BertVocab> ReadBertVocab(absl::string_view vocab_txt, const nlohmann::json& config);

// The tokenizer.json that says the same. Errors name the token that the vocabulary lacks.
absl::StatusOr<nlohmann::json> TokenizerJsonFromBertVocab(const BertVocab& vocab);

}  // namespace penstock
