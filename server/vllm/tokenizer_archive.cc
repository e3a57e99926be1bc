#include "server/vllm/tokenizer_archive.h"

#include <openssl/evp.h>
#include <zip.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <system_error>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/text/gguf_tokenizer.h"
#include "shard/base/status_macros.h"
#include "shard/checkpoint/checkpoint.h"
#include "shard/checkpoint/file.h"

namespace penstock::vllm {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kNames[] = {"tokenizer.json",
                                        "tokenizer_config.json",
                                        "config.json",
                                        "generation_config.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "special_tokens_map.json",
                                        "chat_template.json",
                                        "preprocessor_config.json",
                                        "added_tokens.json",
                                        "vocab.txt"};
constexpr absl::string_view kSuffixes[] = {".tiktoken", ".jinja", ".model"};
constexpr int64_t kMostBytes = 256 << 20;  // of a file; what is larger is no tokenizer

bool IsWanted(const std::string& name) {
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
         std::any_of(std::begin(kSuffixes), std::end(kSuffixes),
                     [&name](absl::string_view suffix) { return absl::EndsWith(name, suffix); });
}

absl::StatusOr<Files> ReadFolder(const std::string& folder) {
  Files files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    std::error_code unreadable;
    if (!IsWanted(name) || !entry.is_regular_file(unreadable)) continue;
    const uintmax_t bytes = entry.file_size(unreadable);
    if (unreadable || bytes > uintmax_t{kMostBytes}) continue;
    ASSIGN_OR_RETURN(files[name], ReadWholeFile(entry.path().string(), kMostBytes));
  }
  if (error) return absl::UnavailableError(absl::StrCat(folder, ": ", error.message()));
  if (files.empty()) return absl::NotFoundError(absl::StrCat(folder, ": no tokenizer's files"));
  return files;
}

std::string Dump(const nlohmann::json& document) {
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::Status ZipError(zip_error_t* error) {
  const absl::Status status =
      absl::InternalError(absl::StrCat("making a ZIP archive: ", zip_error_strerror(error)));
  zip_error_fini(error);
  return status;
}

// Of an archive in memory.
std::string ReadAll(zip_source_t* source) {
  std::string bytes;
  if (zip_source_open(source) != 0) return bytes;
  zip_source_seek(source, 0, SEEK_END);
  bytes.resize(static_cast<size_t>(std::max<zip_int64_t>(0, zip_source_tell(source))));
  zip_source_seek(source, 0, SEEK_SET);
  const zip_int64_t read = zip_source_read(source, bytes.data(), bytes.size());
  bytes.resize(static_cast<size_t>(std::max<zip_int64_t>(0, read)));
  zip_source_close(source);
  return bytes;
}

}  // namespace

nlohmann::json TokenizerConfigFromGguf(const nlohmann::json& metadata) {
  nlohmann::json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}};
  if (const auto it = metadata.find("tokenizer.chat_template"); it != metadata.end())
    config["chat_template"] = *it;
  const auto tokens = metadata.find("tokenizer.ggml.tokens");
  for (const char* name : {"bos", "eos", "unknown", "padding"}) {
    const auto id = metadata.find(absl::StrCat("tokenizer.ggml.", name, "_token_id"));
    if (tokens == metadata.end() || !tokens->is_array()) break;
    if (id == metadata.end() || !id->is_number_unsigned() || *id >= tokens->size()) continue;
    const absl::string_view key(name);
    const absl::string_view theirs = key == "unknown" ? "unk" : key == "padding" ? "pad" : key;
    config[absl::StrCat(theirs, "_token")] = (*tokens)[id->get<size_t>()];
  }
  for (const char* name : {"bos", "eos"})
    if (const auto add = metadata.find(absl::StrCat("tokenizer.ggml.add_", name, "_token"));
        add != metadata.end())
      config[absl::StrCat("add_", name, "_token")] = *add;
  return config;
}

absl::StatusOr<Files> ReadTokenizerFiles(const std::string& checkpoint) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> opened, Checkpoint::Open(checkpoint));
  const nlohmann::json& metadata = opened->metadata();
  if (metadata.is_null()) return ReadFolder(checkpoint);
  absl::StatusOr<nlohmann::json> tokenizer = TokenizerJsonFromGguf(metadata);
  if (!tokenizer.ok())
    return absl::Status(tokenizer.status().code(),
                        absl::StrCat(opened->path(), ": ", tokenizer.status().message()));
  return Files{{"tokenizer.json", Dump(*tokenizer)},
               {"tokenizer_config.json", Dump(TokenizerConfigFromGguf(metadata))},
               {"config.json", Dump(opened->config())}};
}

absl::StatusOr<std::string> MakeZip(const Files& files) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(nullptr, 0, 0, &error);
  if (source == nullptr) return ZipError(&error);
  zip_source_keep(source);  // beyond zip_close()
  const std::unique_ptr<zip_source_t, void (*)(zip_source_t*)> kept(source, zip_source_free);
  zip_t* archive = zip_open_from_source(source, ZIP_TRUNCATE, &error);
  if (archive == nullptr) {
    zip_source_free(source);
    return ZipError(&error);
  }
  for (const auto& [name, bytes] : files) {
    zip_source_t* content = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
    const zip_int64_t index = zip_file_add(archive, name.c_str(), content, ZIP_FL_ENC_UTF_8);
    if (index >= 0) {
      zip_file_set_mtime(archive, static_cast<zip_uint64_t>(index), 315532800, 0);  // of 1980
      continue;
    }
    zip_source_free(content);
    zip_discard(archive);
    return absl::InternalError(absl::StrCat("making a ZIP archive: ", name, " is not taken"));
  }
  if (zip_close(archive) != 0) {
    zip_discard(archive);
    return absl::InternalError("making a ZIP archive: it cannot be written");
  }
  return ReadAll(source);
}

std::string Sha256(const std::string& bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest, &length, EVP_sha256(), nullptr);
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest), length});
}

}  // namespace penstock::vllm
