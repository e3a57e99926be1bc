#include "server/text/tokenizer_json.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "server/text/json_fields.h"
#include "server/text/model_json.h"
#include "server/text/pipeline_tokenizer.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

using nlohmann::json;

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
                                                         const Vocabulary& vocabulary) {
  std::vector<AddedToken> tokens;
  if (FindField(document, "added_tokens") == nullptr) return tokens;
  ASSIGN_OR_RETURN(const json* list, ArrayField(document, "added_tokens"));
  absl::flat_hash_map<std::string, int32_t> ids;
  auto next_id = static_cast<int32_t>(vocabulary.entries().size());
  for (const json& node : *list) {
    ASSIGN_OR_RETURN(AddedToken token, ParseAddedToken(node));
    if (token.content.empty()) continue;
    const auto [known, is_new] = ids.try_emplace(token.content, vocabulary.Find(token.content));
    if (is_new && known->second < 0) known->second = next_id++;
    token.id = known->second;
    tokens.push_back(std::move(token));
  }
  return tokens;
}

// The reference takes a template's ids as they are; here they must not lead out of the vocabulary.
absl::Status CheckIds(const PostProcessor::Template& pieces, int32_t vocab_size) {
  for (const PostProcessor::Piece& piece : pieces) {
    if (piece.text == PostProcessor::kSpecial && piece.id >= vocab_size) {
      return absl::InvalidArgumentError(
          absl::StrCat("post_processor: token ", piece.id, " is not in the vocabulary"));
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
  ASSIGN_OR_RETURN(const json* model_node, ObjectField(document, "model"));
  ASSIGN_OR_RETURN(const std::string model_type, ModelType(*model_node));
  if (model_type != "BPE") pre.SpellOutBytes();
  ASSIGN_OR_RETURN(auto model, ModelFromJson(*model_node, pre.byte_level()));
  ASSIGN_OR_RETURN(auto added, ParseAddedTokens(document, model->vocabulary()));
  const PostProcessor around = post;
  auto tokenizer = std::make_unique<PipelineTokenizer>(
      PipelineTokenizer::Parts{std::move(normalizer), std::move(pre), std::move(model),
                               std::move(post), std::move(decoder), std::move(added)});
  RETURN_IF_ERROR(CheckIds(around.single(), tokenizer->vocab_size()));
  RETURN_IF_ERROR(CheckIds(around.pair(), tokenizer->vocab_size()));
  return tokenizer;
}

}  // namespace penstock
