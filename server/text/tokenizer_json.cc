#include "server/text/tokenizer_json.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "server/text/bpe_tokenizer.h"
#include "server/text/json_fields.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

using nlohmann::json;

absl::Status CheckOptions(const json& model) {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    ASSIGN_OR_RETURN(const std::string value, StringField(model, key, ""));
    if (!value.empty()) return FieldError(model, key, "is not supported");
  }
  const json* dropout = FindField(model, "dropout");
  if (dropout != nullptr && *dropout != 0.0) {
    return FieldError(model, "dropout", "is not supported: encoding would be random");
  }
  return absl::OkStatus();
}

absl::Status ParseVocab(const json& model, BpeSpec* spec) {
  ASSIGN_OR_RETURN(const json* vocab, ObjectField(model, "vocab"));
  spec->vocab.reserve(vocab->size());
  for (const auto& [token, id] : vocab->items()) {
    const auto value = id.is_number_integer() ? id.get<int64_t>() : -1;
    if (value < 0 || value > kMaxTokenId) {
      return FieldError(model, "vocab", absl::StrCat("has no valid id for '", token, "'"));
    }
    spec->vocab.emplace_back(token, static_cast<int32_t>(value));
  }
  return absl::OkStatus();
}

// "a b" or ["a", "b"]
absl::Status ParseMerges(const json& model, BpeSpec* spec) {
  ASSIGN_OR_RETURN(const json* merges, ArrayField(model, "merges"));
  spec->merges.reserve(merges->size());
  for (const json& merge : *merges) {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      spec->merges.emplace_back(merge[0].get_ref<const std::string&>(),
                                merge[1].get_ref<const std::string&>());
      continue;
    }
    const size_t index = spec->merges.size();
    if (!merge.is_string()) {
      return FieldError(model, "merges", absl::StrCat("has no pair of tokens at ", index));
    }
    const auto& text = merge.get_ref<const std::string&>();
    if (index == 0 && text.rfind("#version", 0) == 0) continue;
    const size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      return FieldError(model, "merges", absl::StrCat("has no pair of tokens at ", index));
    }
    spec->merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return absl::OkStatus();
}

absl::StatusOr<BpeModel> ParseModel(const json& document, bool byte_level) {
  ASSIGN_OR_RETURN(const json* model, ObjectField(document, "model"));
  // Old files leave the type out.
  ASSIGN_OR_RETURN(const std::string type, StringField(*model, "type", "BPE"));
  if (type != "BPE") {
    return absl::UnimplementedError(
        absl::StrCat("tokenizer model type '", type, "' is not supported; BPE is"));
  }
  RETURN_IF_ERROR(CheckOptions(*model));
  BpeSpec spec;
  spec.byte_level = byte_level;
  ASSIGN_OR_RETURN(spec.unk_token, StringField(*model, "unk_token", ""));
  ASSIGN_OR_RETURN(spec.fuse_unk, BoolField(*model, "fuse_unk", false));
  ASSIGN_OR_RETURN(spec.byte_fallback, BoolField(*model, "byte_fallback", false));
  ASSIGN_OR_RETURN(spec.ignore_merges, BoolField(*model, "ignore_merges", false));
  RETURN_IF_ERROR(ParseVocab(*model, &spec));
  RETURN_IF_ERROR(ParseMerges(*model, &spec));
  return BpeModel::Build(std::move(spec));
}

absl::StatusOr<AddedToken> ParseAddedToken(const json& node) {
  AddedToken token;
  ASSIGN_OR_RETURN(token.content, StringField(node, "content"));
  ASSIGN_OR_RETURN(token.single_word, BoolField(node, "single_word", false));
  ASSIGN_OR_RETURN(token.lstrip, BoolField(node, "lstrip", false));
  ASSIGN_OR_RETURN(token.rstrip, BoolField(node, "rstrip", false));
  ASSIGN_OR_RETURN(token.special, BoolField(node, "special", false));
  ASSIGN_OR_RETURN(token.normalized, BoolField(node, "normalized", !token.special));
  return token;
}

// As in the reference, the ids that the file gives added tokens do not count: a token that the
// model has keeps the model's id, the others follow behind the model's vocabulary in the file's
// order.
absl::StatusOr<std::vector<AddedToken>> ParseAddedTokens(const json& document,
                                                         const BpeModel& model) {
  std::vector<AddedToken> tokens;
  if (FindField(document, "added_tokens") == nullptr) return tokens;
  ASSIGN_OR_RETURN(const json* list, ArrayField(document, "added_tokens"));
  absl::flat_hash_map<std::string, int32_t> ids;
  auto next_id = static_cast<int32_t>(model.size());
  for (const json& node : *list) {
    ASSIGN_OR_RETURN(AddedToken token, ParseAddedToken(node));
    if (token.content.empty()) continue;
    const auto [known, is_new] = ids.try_emplace(token.content, model.Find(token.content));
    if (is_new && known->second < 0) known->second = next_id++;
    token.id = known->second;
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// The reference takes a template's ids as they are; here they must not lead out of the vocabulary.
absl::Status CheckIds(const std::vector<int32_t>& ids, int32_t vocab_size) {
  for (const int32_t id : ids) {
    if (id >= vocab_size) {
      return absl::InvalidArgumentError(
          absl::StrCat("post_processor: token ", id, " is not in the vocabulary"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerFromJson(const json& document) {
  if (!document.is_object()) return absl::InvalidArgumentError("tokenizer: not a JSON object");
  ASSIGN_OR_RETURN(const std::string version, StringField(document, "version", "1.0"));
  if (version != "1.0") return FieldError(document, "version", "is '" + version + "', not '1.0'");
  ASSIGN_OR_RETURN(auto normalizer, Normalizer::FromJson(FindField(document, "normalizer")));
  ASSIGN_OR_RETURN(auto pre, PreTokenizer::FromJson(FindField(document, "pre_tokenizer")));
  ASSIGN_OR_RETURN(auto post, PostProcessor::FromJson(FindField(document, "post_processor")));
  ASSIGN_OR_RETURN(auto decoder, Decoder::FromJson(FindField(document, "decoder")));
  ASSIGN_OR_RETURN(auto model, ParseModel(document, pre.byte_level()));
  ASSIGN_OR_RETURN(auto added, ParseAddedTokens(document, model));
  const PostProcessor around = post;
  auto tokenizer = std::make_unique<BpeTokenizer>(
      BpeTokenizer::Parts{std::move(normalizer), std::move(pre), std::move(model), std::move(post),
                          std::move(decoder), std::move(added)});
  RETURN_IF_ERROR(CheckIds(around.prefix, tokenizer->vocab_size()));
  RETURN_IF_ERROR(CheckIds(around.suffix, tokenizer->vocab_size()));
  return tokenizer;
}

}  // namespace penstock
