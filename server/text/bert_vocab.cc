#include "server/text/bert_vocab.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/text/json_fields.h"
#include "server/text/unicode.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr absl::string_view kClasses[] = {"BertTokenizer", "DistilBertTokenizer",
                                          "ElectraTokenizer", "MobileBertTokenizer",
                                          "ConvBertTokenizer"};

absl::Status CheckClass(const json& config) {
  ASSIGN_OR_RETURN(const std::string name, StringField(config, "tokenizer_class", kClasses[0]));
  const absl::string_view base = absl::StripSuffix(name, "Fast");
  if (std::find(std::begin(kClasses), std::end(kClasses), base) != std::end(kClasses)) {
    return absl::OkStatus();
  }
  return FieldError(config, "tokenizer_class", "is '" + name + "', which needs a tokenizer.json");
}

// "[CLS]" or {"content": "[CLS]"}
absl::Status ReadToken(const json& config, const char* key, std::string* token) {
  const json* field = FindField(config, key);
  if (field == nullptr) return absl::OkStatus();
  if (field->is_object()) {
    ASSIGN_OR_RETURN(*token, StringField(*field, "content"));
  } else {
    ASSIGN_OR_RETURN(*token, StringField(config, key));
  }
  return absl::OkStatus();
}

json Special(const std::string& token, int type) {
  return {{"SpecialToken", {{"id", token}, {"type_id", type}}}};
}

json Text(const char* id, int type) { return {{"Sequence", {{"id", id}, {"type_id", type}}}}; }

}  // namespace

absl::StatusOr<BertVocab> ReadBertVocab(absl::string_view vocab_txt, const json& config) {
  RETURN_IF_ERROR(CheckClass(config));
  BertVocab vocab;
  for (const absl::string_view line : absl::StrSplit(absl::StripSuffix(vocab_txt, "\n"), '\n')) {
    if (!IsValidUtf8(line)) {
      return absl::InvalidArgumentError(
          absl::StrCat("vocab.txt: line ", vocab.tokens.size() + 1, " is not UTF-8"));
    }
    vocab.tokens.emplace_back(absl::StripSuffix(line, "\r"));
  }
  RETURN_IF_ERROR(ReadToken(config, "unk_token", &vocab.unk_token));
  RETURN_IF_ERROR(ReadToken(config, "cls_token", &vocab.cls_token));
  RETURN_IF_ERROR(ReadToken(config, "sep_token", &vocab.sep_token));
  RETURN_IF_ERROR(ReadToken(config, "pad_token", &vocab.pad_token));
  RETURN_IF_ERROR(ReadToken(config, "mask_token", &vocab.mask_token));
  ASSIGN_OR_RETURN(vocab.lowercase, BoolField(config, "do_lower_case", true));
  ASSIGN_OR_RETURN(vocab.handle_chinese_chars, BoolField(config, "tokenize_chinese_chars", true));
  if (const json* strip = FindField(config, "strip_accents")) vocab.strip_accents = *strip;
  return vocab;
}

absl::StatusOr<json> TokenizerJsonFromBertVocab(const BertVocab& vocab) {
  json::object_t ids;
  for (size_t id = 0; id < vocab.tokens.size(); ++id) ids[vocab.tokens[id]] = id;
  json special = json::object();
  json added = json::array();
  for (const std::string& token :
       {vocab.pad_token, vocab.unk_token, vocab.cls_token, vocab.sep_token, vocab.mask_token}) {
    const auto found = ids.find(token);
    const bool needed = token == vocab.cls_token || token == vocab.sep_token;
    if (found == ids.end() && needed) {
      return absl::InvalidArgumentError(absl::StrCat("the vocabulary lacks '", token, "'"));
    }
    if (found == ids.end()) continue;
    special[token] = {{"ids", json::array({found->second})}};
    added.push_back({{"content", token}, {"special", true}, {"normalized", false}});
  }
  const json cls = Special(vocab.cls_token, 0);
  const json sep = Special(vocab.sep_token, 0);
  return json{{"added_tokens", added},
              {"normalizer",
               {{"type", "BertNormalizer"},
                {"handle_chinese_chars", vocab.handle_chinese_chars},
                {"strip_accents", vocab.strip_accents},
                {"lowercase", vocab.lowercase}}},
              {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
              {"post_processor",
               {{"type", "TemplateProcessing"},
                {"single", {cls, Text("A", 0), sep}},
                {"pair", {cls, Text("A", 0), sep, Text("B", 1), Special(vocab.sep_token, 1)}},
                {"special_tokens", special}}},
              {"decoder", {{"type", "WordPiece"}}},
              {"model",
               {{"type", "WordPiece"}, {"unk_token", vocab.unk_token}, {"vocab", std::move(ids)}}}};
}

}  // namespace penstock
