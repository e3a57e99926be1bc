#include "server/text/tokenizer.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "server/text/gguf_tokenizer.h"
#include "server/text/tokenizer_json.h"
#include "shard/base/status_macros.h"
#include "shard/checkpoint/checkpoint.h"

namespace penstock {
namespace {

absl::StatusOr<std::string> ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file.good() && !file.eof()) {
    return absl::UnavailableError(absl::StrCat(path.string(), ": can't be read"));
  }
  return text;
}

absl::Status At(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

absl::StatusOr<std::unique_ptr<Tokenizer>> FromGguf(const nlohmann::json& metadata) {
  ASSIGN_OR_RETURN(const nlohmann::json document, TokenizerJsonFromGguf(metadata));
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
  const auto file = std::filesystem::path(path) / "tokenizer.json";
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) {
    return absl::NotFoundError(absl::StrCat(path, ": there is no tokenizer.json in this folder"));
  }
  ASSIGN_OR_RETURN(const std::string text, ReadFile(file));
  auto tokenizer = FromJson(text);
  if (!tokenizer.ok()) return At(file.string(), tokenizer.status());
  return tokenizer;
}

}  // namespace penstock
