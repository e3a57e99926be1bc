#include "server/text/gguf_tokenizer.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/text/gguf_pre_tokenizers.h"
#include "server/text/json_fields.h"
#include "server/text/spm_merges.h"
#include "server/text/unicode.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr char kSpaceMark[] = "\xE2\x96\x81";  // U+2581

// Values of tokenizer.ggml.token_type.
enum TokenType { kUnknown = 2, kControl = 3, kUserDefined = 4 };

// The tokenizer.ggml.* part of a GGUF file's metadata.
class GgufVocab {
 public:
  explicit GgufVocab(const json& metadata) : metadata_(metadata) {}

  static std::string Key(absl::string_view name) { return absl::StrCat("tokenizer.ggml.", name); }
  const json& metadata() const { return metadata_; }
  const std::vector<std::string>& tokens() const { return tokens_; }

  absl::Status ReadTokens() {
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

  json Vocab() const {
    json::object_t vocab;
    for (size_t id = 0; id < tokens_.size(); ++id) vocab[tokens_[id]] = id;
    return vocab;
  }

  // Control, unknown and user-defined tokens are found in the text before anything else.
  absl::StatusOr<json> AddedTokens() const {
    json added = json::array();
    if (FindField(metadata_, Key("token_type")) == nullptr) return added;
    ASSIGN_OR_RETURN(const json* types, ArrayField(metadata_, Key("token_type")));
    if (types->size() != tokens_.size()) {
      return FieldError(metadata_, Key("token_type"), "is not as long as the list of tokens");
    }
    for (size_t id = 0; id < tokens_.size(); ++id) {
      const json& type = (*types)[id];
      const bool special = type == kControl || type == kUnknown;
      if (!special && type != kUserDefined) continue;
      added.push_back(
          {{"id", id}, {"content", tokens_[id]}, {"special", special}, {"normalized", false}});
    }
    return added;
  }

  // Null where the key is absent.
  absl::StatusOr<json> TokenAt(absl::string_view key) const {
    if (FindField(metadata_, Key(key)) == nullptr) return json();
    ASSIGN_OR_RETURN(const int32_t id, IdField(metadata_, Key(key)));
    if (static_cast<size_t>(id) >= tokens_.size()) {
      return FieldError(metadata_, Key(key), "is not an id of the vocabulary");
    }
    return json(tokens_[id]);
  }

  // The template that puts BOS and EOS where the file wants them.
  absl::StatusOr<json> PostProcessor(bool bos_if_absent) const {
    ASSIGN_OR_RETURN(const bool add_bos, BoolField(metadata_, Key("add_bos_token"), bos_if_absent));
    ASSIGN_OR_RETURN(const bool add_eos, BoolField(metadata_, Key("add_eos_token"), false));
    json single = json::array();
    json special = json::object();
    if (add_bos) RETURN_IF_ERROR(AddToTemplate("bos_token_id", &single, &special));
    single.push_back({{"Sequence", {{"id", "A"}}}});
    if (add_eos) RETURN_IF_ERROR(AddToTemplate("eos_token_id", &single, &special));
    return json{{"type", "TemplateProcessing"}, {"single", single}, {"special_tokens", special}};
  }

 private:
  absl::Status AddToTemplate(absl::string_view key, json* single, json* special) const {
    ASSIGN_OR_RETURN(const json token, TokenAt(key));
    if (token.is_null())
      return FieldError(metadata_, Key(key), "is missing, but it is to be added");
    ASSIGN_OR_RETURN(const int32_t id, IdField(metadata_, Key(key)));
    single->push_back({{"SpecialToken", {{"id", token}}}});
    (*special)[token.get_ref<const std::string&>()] = {{"ids", json::array({id})}};
    return absl::OkStatus();
  }

  const json& metadata_;
  std::vector<std::string> tokens_;
};

absl::StatusOr<json> ByteLevelDocument(const GgufVocab& vocab) {
  const json& metadata = vocab.metadata();
  ASSIGN_OR_RETURN(const std::string pre, StringField(metadata, GgufVocab::Key("pre"), "default"));
  GgufPreTokenizer family;
  if (!FindGgufPreTokenizer(pre, &family)) {
    return FieldError(metadata, GgufVocab::Key("pre"), "is '" + pre + "', which is not supported");
  }
  ASSIGN_OR_RETURN(const json* merges, ArrayField(metadata, GgufVocab::Key("merges")));
  ASSIGN_OR_RETURN(const json post, vocab.PostProcessor(family.add_bos));
  return json{{"normalizer", family.normalizer},
              {"pre_tokenizer", family.pre_tokenizer},
              {"post_processor", post},
              {"decoder", {{"type", "ByteLevel"}}},
              {"model",
               {{"type", "BPE"},
                {"ignore_merges", family.ignore_merges},
                {"vocab", vocab.Vocab()},
                {"merges", *merges}}}};
}

absl::StatusOr<json> SpmMerges(const GgufVocab& vocab) {
  const std::string key = GgufVocab::Key("scores");
  ASSIGN_OR_RETURN(const json* list, ArrayField(vocab.metadata(), key));
  if (list->size() != vocab.tokens().size()) {
    return FieldError(vocab.metadata(), key, "is not as long as the list of tokens");
  }
  std::vector<float> scores;
  for (const json& score : *list) {
    // Not a number would break the order that sorting needs.
    const float value = score.is_number() ? score.get<float>() : NAN;
    if (!std::isfinite(value)) {
      return FieldError(vocab.metadata(), key, "has something else than a finite number");
    }
    scores.push_back(value);
  }
  json merges = json::array();
  for (auto& [left, right] : MergesFromScores(vocab.tokens(), scores)) {
    merges.push_back({std::move(left), std::move(right)});
  }
  return merges;
}

absl::StatusOr<json> SpmDocument(const GgufVocab& vocab) {
  const json& metadata = vocab.metadata();
  ASSIGN_OR_RETURN(const bool prefix,
                   BoolField(metadata, GgufVocab::Key("add_space_prefix"), true));
  ASSIGN_OR_RETURN(const json unk, vocab.TokenAt("unknown_token_id"));
  ASSIGN_OR_RETURN(const json post, vocab.PostProcessor(/*bos_if_absent=*/true));
  ASSIGN_OR_RETURN(json merges, SpmMerges(vocab));
  json normalizers = json::array();
  json decoders =
      json::array({{{"type", "Replace"}, {"pattern", {{"String", kSpaceMark}}}, {"content", " "}},
                   {{"type", "ByteFallback"}},
                   {{"type", "Fuse"}}});
  if (prefix) {
    normalizers.push_back({{"type", "Prepend"}, {"prepend", kSpaceMark}});
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  normalizers.push_back(
      {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpaceMark}});
  return json{{"normalizer", {{"type", "Sequence"}, {"normalizers", normalizers}}},
              {"post_processor", post},
              {"decoder", {{"type", "Sequence"}, {"decoders", decoders}}},
              {"model",
               {{"type", "BPE"},
                {"unk_token", unk},
                {"fuse_unk", true},
                {"byte_fallback", true},
                {"vocab", vocab.Vocab()},
                {"merges", std::move(merges)}}}};
}

}  // namespace

absl::StatusOr<json> TokenizerJsonFromGguf(const json& metadata) {
  const std::string key = GgufVocab::Key("model");
  ASSIGN_OR_RETURN(const std::string model, StringField(metadata, key));
  if (model != "gpt2" && model != "llama") {
    return FieldError(metadata, key, "is '" + model + "', which is not supported");
  }
  GgufVocab vocab(metadata);
  RETURN_IF_ERROR(vocab.ReadTokens());
  ASSIGN_OR_RETURN(json document, model == "gpt2" ? ByteLevelDocument(vocab) : SpmDocument(vocab));
  ASSIGN_OR_RETURN(document["added_tokens"], vocab.AddedTokens());
  return document;
}

}  // namespace penstock
