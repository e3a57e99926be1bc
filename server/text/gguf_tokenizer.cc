#include "server/text/gguf_tokenizer.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/text/bert_vocab.h"
#include "server/text/gguf_pre_tokenizers.h"
#include "server/text/gguf_vocab.h"
#include "server/text/json_fields.h"
#include "server/text/spm_merges.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr char kSpaceMark[] = "\xE2\x96\x81";  // U+2581

absl::StatusOr<json> ByteLevelDocument(const GgufVocab& vocab) {
  const json& metadata = vocab.metadata();
  ASSIGN_OR_RETURN(const std::string pre, StringField(metadata, GgufVocab::Key("pre"), "default"));
  GgufPreTokenizer family;
  if (!FindGgufPreTokenizer(pre, &family)) {
    return FieldError(metadata, GgufVocab::Key("pre"), "is '" + pre + "', which is not supported");
  }
  ASSIGN_OR_RETURN(const json* merges, ArrayField(metadata, GgufVocab::Key("merges")));
  ASSIGN_OR_RETURN(const json post, vocab.PostProcessor(family.add_bos, /*eos_if_absent=*/false));
  return json{{"normalizer", family.normalizer},
              {"pre_tokenizer", family.pre_tokenizer},
              {"post_processor", post},
              {"decoder",
               {{"type", "ByteLevel"},
                {"add_prefix_space", false},
                {"trim_offsets", true},
                {"use_regex", true}}},
              {"model",
               {{"type", "BPE"},
                {"ignore_merges", family.ignore_merges},
                {"vocab", vocab.Vocab()},
                {"merges", *merges}}}};
}

absl::StatusOr<json> SpmMerges(const GgufVocab& vocab) {
  ASSIGN_OR_RETURN(const std::vector<float> scores, vocab.Scores());
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
  ASSIGN_OR_RETURN(const json post,
                   vocab.PostProcessor(/*bos_if_absent=*/true, /*eos_if_absent=*/false));
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

// The normalizer of a SentencePiece model: its rules, then the spaces.
absl::StatusOr<json> UnigramNormalizer(const json& metadata) {
  json steps = json::array();
  const std::string key = GgufVocab::Key("precompiled_charsmap");
  if (FindField(metadata, key) != nullptr) {
    ASSIGN_OR_RETURN(const json* list, ArrayField(metadata, key));
    std::string bytes;
    for (const json& byte : *list) {
      if (!byte.is_number_integer()) return FieldError(metadata, key, "is not a list of bytes");
      bytes.push_back(static_cast<char>(byte.get<int>()));
    }
    if (!bytes.empty()) {
      steps.push_back(
          {{"type", "Precompiled"}, {"precompiled_charsmap", absl::Base64Escape(bytes)}});
    }
  }
  ASSIGN_OR_RETURN(const bool tidy,
                   BoolField(metadata, GgufVocab::Key("remove_extra_whitespaces"), true));
  if (tidy) {
    steps.push_back({{"type", "Strip"}});
    steps.push_back({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}});
  }
  return json{{"type", "Sequence"}, {"normalizers", steps}};
}

absl::StatusOr<json> UnigramDocument(const GgufVocab& vocab) {
  const json& metadata = vocab.metadata();
  ASSIGN_OR_RETURN(const std::vector<float> scores, vocab.Scores());
  ASSIGN_OR_RETURN(const bool prefix,
                   BoolField(metadata, GgufVocab::Key("add_space_prefix"), true));
  ASSIGN_OR_RETURN(const int32_t unk_id, IdField(metadata, GgufVocab::Key("unknown_token_id"), 2));
  ASSIGN_OR_RETURN(const json normalizer, UnigramNormalizer(metadata));
  ASSIGN_OR_RETURN(const json post,
                   vocab.PostProcessor(/*bos_if_absent=*/false, /*eos_if_absent=*/true));
  json pieces = json::array();
  for (size_t id = 0; id < scores.size(); ++id) pieces.push_back({vocab.tokens()[id], scores[id]});
  const auto& types = vocab.types();
  const bool bytes = std::find(types.begin(), types.end(), GgufVocab::kByte) != types.end();
  const json marks = {{"type", "Metaspace"},
                      {"replacement", kSpaceMark},
                      {"prepend_scheme", prefix ? "always" : "never"}};
  return json{{"normalizer", normalizer},
              {"pre_tokenizer", marks},
              {"post_processor", post},
              {"decoder", marks},
              {"model",
               {{"type", "Unigram"},
                {"unk_id", unk_id},
                {"byte_fallback", bytes},
                {"vocab", std::move(pieces)}}}};
}

// WordPiece tokens as llama.cpp writes them: a space mark where a word begins, nothing where it
// goes on.
absl::StatusOr<json> WordPieceDocument(const GgufVocab& vocab) {
  BertVocab bert;
  for (const auto& [key, token] :
       {std::pair("unknown_token_id", &bert.unk_token), std::pair("cls_token_id", &bert.cls_token),
        std::pair("seperator_token_id", &bert.sep_token)}) {
    ASSIGN_OR_RETURN(const json named, vocab.TokenAt(key));
    if (!named.is_null()) *token = named.get<std::string>();
  }
  for (size_t id = 0; id < vocab.tokens().size(); ++id) {
    absl::string_view token = vocab.tokens()[id];
    const int type = vocab.types().empty() ? 0 : vocab.types()[id];
    const bool bracketed = absl::StartsWith(token, "[") && absl::EndsWith(token, "]");
    if (type == GgufVocab::kControl || type == GgufVocab::kUnknown || bracketed ||
        absl::ConsumePrefix(&token, kSpaceMark)) {
      bert.tokens.emplace_back(token);
    } else {
      bert.tokens.push_back(absl::StrCat("##", token));
    }
  }
  return TokenizerJsonFromBertVocab(bert);
}

struct Kind {
  absl::string_view model;
  absl::StatusOr<json> (*make_document)(const GgufVocab& vocab);
};
constexpr Kind kKinds[] = {{"gpt2", ByteLevelDocument},
                           {"llama", SpmDocument},
                           {"bert", WordPieceDocument},
                           {"t5", UnigramDocument}};

}  // namespace

absl::StatusOr<json> TokenizerJsonFromGguf(const json& metadata) {
  const std::string key = GgufVocab::Key("model");
  ASSIGN_OR_RETURN(const std::string model, StringField(metadata, key));
  const auto* kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                  [&model](const Kind& entry) { return entry.model == model; });
  if (kind == std::end(kKinds)) {
    return FieldError(metadata, key, "is '" + model + "', which is not supported");
  }
  ASSIGN_OR_RETURN(const GgufVocab vocab, GgufVocab::Read(metadata));
  ASSIGN_OR_RETURN(json document, kind->make_document(vocab));
  if (FindField(document, "added_tokens") == nullptr) {
    document["added_tokens"] = vocab.AddedTokens();
  }
  document["version"] = "1.0";
  return document;
}

}  // namespace penstock
