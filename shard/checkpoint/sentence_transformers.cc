#include "shard/checkpoint/sentence_transformers.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "shard/base/status_macros.h"
#include "shard/checkpoint/file.h"
#include "shard/checkpoint/json.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr int64_t kMaxBytes = 1 << 20;

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

absl::StatusOr<json> ReadJson(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path, kMaxBytes));
  return ParseJson(text, path);
}

// A string of a module; empty when it is absent or none.
absl::string_view StringOf(const json& module, const char* key) {
  const json* value = FindMember(module, key);
  const auto* text = value == nullptr ? nullptr : value->get_ptr<const std::string*>();
  return text == nullptr ? absl::string_view() : *text;
}

// A plain name of a folder in the same folder.
bool IsPlainName(absl::string_view name) {
  return !name.empty() && !absl::StartsWith(name, ".") && !absl::StrContains(name, '/') &&
         !absl::StrContains(name, '\\') && !absl::StrContains(name, absl::string_view("\0", 1));
}

class ModuleReader {
 public:
  explicit ModuleReader(const std::string& folder)
      : folder_(folder), path_(absl::StrCat(folder, "/modules.json")) {}

  absl::StatusOr<json> Read() {
    ASSIGN_OR_RETURN(const json modules, ReadJson(path_));
    if (!modules.is_array()) return Error("is no list of modules");
    found_ = {{"normalize", false}};
    for (const json& module : modules) RETURN_IF_ERROR(Add(module));
    const std::string sentence = absl::StrCat(folder_, "/sentence_bert_config.json");
    if (Exists(sentence)) {
      ASSIGN_OR_RETURN(const json config, ReadJson(sentence));
      const json* longest = FindMember(config, "max_seq_length");
      if (longest != nullptr && !longest->is_null()) found_["max_seq_length"] = *longest;
    }
    return std::move(found_);
  }

 private:
  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": ", what));
  }

  absl::Status Add(const json& module) {
    const absl::string_view type = StringOf(module, "type"), path = StringOf(module, "path");
    const absl::string_view kind = type.substr(type.rfind('.') + 1);
    if (kind == "Transformer" && path.empty()) return absl::OkStatus();
    if (kind == "Transformer")
      return Error(absl::StrCat("the Transformer is in ", path, "; give that folder instead"));
    if (kind == "Normalize") {
      found_["normalize"] = true;
      return absl::OkStatus();
    }
    if (kind != "Pooling")
      return Error(absl::StrCat("module \"", type,
                                "\" is not supported; known: Transformer, Pooling, Normalize"));
    if (!IsPlainName(path)) return Error("the path of Pooling is no name of a folder beside it");
    ASSIGN_OR_RETURN(found_["pooling"], ReadJson(absl::StrCat(folder_, "/", path, "/config.json")));
    return absl::OkStatus();
  }

  const std::string folder_, path_;
  json found_;
};

}  // namespace

absl::Status AddSentenceTransformers(const std::string& folder, json* config) {
  config->erase(kSentenceTransformersKey);
  if (!Exists(absl::StrCat(folder, "/modules.json"))) return absl::OkStatus();
  ASSIGN_OR_RETURN((*config)[kSentenceTransformersKey], ModuleReader(folder).Read());
  return absl::OkStatus();
}

}  // namespace penstock
