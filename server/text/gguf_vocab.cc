#include "server/text/gguf_vocab.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/text/json_fields.h"
#include "server/text/unicode.h"
#include "shard/base/status_macros.h"

namespace penstock {

using nlohmann::json;

absl::StatusOr<GgufVocab> GgufVocab::Read(const json& metadata) {
  GgufVocab vocab(metadata);
  RETURN_IF_ERROR(vocab.ReadTokens());
  RETURN_IF_ERROR(vocab.ReadTypes());
  return vocab;
}

std::string GgufVocab::Key(absl::string_view name) { return absl::StrCat("tokenizer.ggml.", name); }

absl::Status GgufVocab::ReadTokens() {
  ASSIGN_OR_RETURN(const json* list, ArrayField(metadata_, Key("tokens")));
  for (const json& token : *list) {
    if (!token.is_string() || !IsValidUtf8(token.get_ref<const std::string&>())) {
      return FieldError(metadata_, Key("tokens"),
                        absl::StrCat("has no UTF-8 string at ", tokens_.size()));
    }
    tokens_.push_back(token.get_ref<const std::string&>());
  }
  return absl::OkStatus();
}

absl::Status GgufVocab::ReadTypes() {
  const std::string key = Key("token_type");
  if (FindField(metadata_, key) == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const json* list, ArrayField(metadata_, key));
  if (list->size() != tokens_.size()) {
    return FieldError(metadata_, key, "is not as long as the list of tokens");
  }
  for (const json& type : *list) {
    types_.push_back(type.is_number_integer() ? type.get<int>() : 0);
  }
  return absl::OkStatus();
}

json GgufVocab::Vocab() const {
  json::object_t vocab;
  for (size_t id = 0; id < tokens_.size(); ++id) vocab[tokens_[id]] = id;
  return vocab;
}

absl::StatusOr<std::vector<float>> GgufVocab::Scores() const {
  const std::string key = Key("scores");
  ASSIGN_OR_RETURN(const json* list, ArrayField(metadata_, key));
  if (list->size() != tokens_.size()) {
    return FieldError(metadata_, key, "is not as long as the list of tokens");
  }
  std::vector<float> scores;
  for (const json& score : *list) {
    // Not a number would break the order that sorting needs.
    const float value = score.is_number() ? score.get<float>() : NAN;
    if (!std::isfinite(value)) {
      return FieldError(metadata_, key, "has something else than a finite number");
    }
    scores.push_back(value);
  }
  return scores;
}

json GgufVocab::AddedTokens() const {
  json added = json::array();
  for (size_t id = 0; id < types_.size(); ++id) {
    const bool special = types_[id] == kControl || types_[id] == kUnknown;
    if (!special && types_[id] != kUserDefined) continue;
    added.push_back({{"id", id},
                     {"content", tokens_[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", special}});
  }
  return added;
}

absl::StatusOr<json> GgufVocab::TokenAt(absl::string_view key) const {
  if (FindField(metadata_, Key(key)) == nullptr) return json();
  ASSIGN_OR_RETURN(const int32_t id, IdField(metadata_, Key(key)));
  if (static_cast<size_t>(id) >= tokens_.size()) {
    return FieldError(metadata_, Key(key), "is not an id of the vocabulary");
  }
  return json(tokens_[id]);
}

absl::StatusOr<json> GgufVocab::PostProcessor(bool bos_if_absent, bool eos_if_absent) const {
  ASSIGN_OR_RETURN(const bool add_bos, BoolField(metadata_, Key("add_bos_token"), bos_if_absent));
  ASSIGN_OR_RETURN(const bool add_eos, BoolField(metadata_, Key("add_eos_token"), eos_if_absent));
  json bos, eos;
  json special = json::object();
  if (add_bos) RETURN_IF_ERROR(DescribeToken("bos_token_id", &bos, &special));
  if (add_eos) RETURN_IF_ERROR(DescribeToken("eos_token_id", &eos, &special));
  json single = json::array();
  json pair = json::array();
  // With both, as in RoBERTa: <s> A </s> </s> B </s>, all of one type.
  const bool like_roberta = add_bos && add_eos;
  for (const char* text : {"A", "B"}) {
    const bool first = *text == 'A';
    json* part = first ? &single : &pair;
    const int type = first || like_roberta ? 0 : 1;
    bos["SpecialToken"]["type_id"] = eos["SpecialToken"]["type_id"] = type;
    if (add_bos) part->push_back(like_roberta && !first ? eos : bos);
    part->push_back({{"Sequence", {{"id", text}, {"type_id", type}}}});
    if (add_eos) part->push_back(eos);
  }
  pair.insert(pair.begin(), single.begin(), single.end());
  return json{{"type", "TemplateProcessing"},
              {"single", single},
              {"pair", pair},
              {"special_tokens", special}};
}

absl::Status GgufVocab::DescribeToken(absl::string_view key, json* piece, json* special) const {
  ASSIGN_OR_RETURN(const json token, TokenAt(key));
  if (token.is_null()) return FieldError(metadata_, Key(key), "is missing, but it is to be added");
  ASSIGN_OR_RETURN(const int32_t id, IdField(metadata_, Key(key)));
  *piece = {{"SpecialToken", {{"id", token}}}};
  (*special)[token.get_ref<const std::string&>()] = {{"ids", json::array({id})}};
  return absl::OkStatus();
}

}  // namespace penstock
