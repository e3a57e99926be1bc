#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace penstock {

// The tokenizer.ggml.* part of a GGUF file's metadata, in terms of a tokenizer.json. Borrows the
// metadata. Errors name the key.
class GgufVocab {
 public:
  // Values of tokenizer.ggml.token_type.
  enum TokenType { kUnknown = 2, kControl = 3, kUserDefined = 4, kByte = 6 };

  static absl::StatusOr<GgufVocab> Read(const nlohmann::json& metadata);

  static std::string Key(absl::string_view name);
  const nlohmann::json& metadata() const { return metadata_; }
  const std::vector<std::string>& tokens() const { return tokens_; }
  // By token; empty where the file says nothing.
  const std::vector<int>& types() const { return types_; }

  // {"token": id}
  nlohmann::json Vocab() const;
  // By token; all of them finite.
  absl::StatusOr<std::vector<float>> Scores() const;
  // Control, unknown and user-defined tokens are found in the text before anything else.
  nlohmann::json AddedTokens() const;
  // The token whose id `key` has; null where the key is absent.
  absl::StatusOr<nlohmann::json> TokenAt(absl::string_view key) const;
  // The template that puts BOS and EOS where the file wants them, for one text and for two.
  absl::StatusOr<nlohmann::json> PostProcessor(bool bos_if_absent, bool eos_if_absent) const;

 private:
  explicit GgufVocab(const nlohmann::json& metadata) : metadata_(metadata) {}
  absl::Status ReadTokens();
  absl::Status ReadTypes();
  absl::Status DescribeToken(absl::string_view key, nlohmann::json* piece,
                             nlohmann::json* special) const;

  const nlohmann::json& metadata_;
  std::vector<std::string> tokens_;
  std::vector<int> types_;
};

}  // namespace penstock
