#include "server/text/tokenizer.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "server/text/bert_vocab.h"
#include "server/text/gguf_tokenizer.h"
#include "server/text/tokenizer_json.h"
#include "shard/base/status_macros.h"
#include "shard/checkpoint/checkpoint.h"

namespace penstock {
namespace {

using TokenizerOr = absl::StatusOr<std::unique_ptr<Tokenizer>>;

// Errors don't name the file.
absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) {
    return absl::InvalidArgumentError("is not a regular file");
  }
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file.good() && !file.eof()) return absl::UnavailableError("can't be read");
  return text;
}

absl::Status At(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

TokenizerOr FromGguf(const nlohmann::json& metadata) {
  ASSIGN_OR_RETURN(const nlohmann::json document, TokenizerJsonFromGguf(metadata));
  return TokenizerFromJson(document);
}

TokenizerOr FromTokenizerFile(const std::filesystem::path& file) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(file));
  return Tokenizer::FromJson(text);
}

// The tokenizer_config.json beside the vocabulary may be absent.
TokenizerOr FromVocabFile(const std::filesystem::path& file) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(file));
  const auto config_file = file.parent_path() / "tokenizer_config.json";
  nlohmann::json config;
  std::error_code error;
  if (std::filesystem::exists(config_file, error)) {
    auto config_text = ReadFile(config_file);
    if (!config_text.ok()) return At("tokenizer_config.json", config_text.status());
    config = nlohmann::json::parse(*config_text, /*cb=*/nullptr, /*allow_exceptions=*/false);
    if (!config.is_object()) {
      return absl::InvalidArgumentError("tokenizer_config.json: not a JSON object");
    }
  }
  ASSIGN_OR_RETURN(const BertVocab vocab, ReadBertVocab(text, config));
  ASSIGN_OR_RETURN(const nlohmann::json document, TokenizerJsonFromBertVocab(vocab));
  return TokenizerFromJson(document);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::FromJson(absl::string_view text) {
  const auto document = nlohmann::json::parse(text.begin(), text.end(), /*cb=*/nullptr,
                                              /*allow_exceptions=*/false);
  if (document.is_discarded()) return absl::InvalidArgumentError("tokenizer: not JSON");
  return TokenizerFromJson(document);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const Checkpoint& checkpoint) {
  const std::string& path = checkpoint.path();
  if (!checkpoint.metadata().is_null()) {
    auto tokenizer = FromGguf(checkpoint.metadata());
    if (!tokenizer.ok()) return At(path, tokenizer.status());
    return tokenizer;
  }
  const auto folder = std::filesystem::path(path);
  std::error_code error;
  using Make = TokenizerOr (*)(const std::filesystem::path&);
  const std::pair<const char*, Make> files[] = {{"tokenizer.json", FromTokenizerFile},
                                                {"vocab.txt", FromVocabFile}};
  for (const auto& [name, make] : files) {
    const auto file = folder / name;
    if (!std::filesystem::exists(file, error)) continue;
    auto tokenizer = make(file);
    if (!tokenizer.ok()) return At(file.string(), tokenizer.status());
    return tokenizer;
  }
  return absl::NotFoundError(
      absl::StrCat(path, ": there is neither a tokenizer.json nor a vocab.txt in this folder"));
}

}  // namespace penstock
