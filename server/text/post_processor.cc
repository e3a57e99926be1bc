#include "server/text/post_processor.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/text/json_fields.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

using nlohmann::json;
using Piece = PostProcessor::Piece;
using Template = PostProcessor::Template;

// What goes from processor to processor, as in the reference: one part per text at first, one per
// piece behind a template.
using Parts = std::vector<Template>;

constexpr int kMaxDepth = 16;  // of sequences in sequences

Piece Special(int32_t id, int32_t type) { return {PostProcessor::kSpecial, id, type}; }

// ["[SEP]", 102]
absl::StatusOr<int32_t> PairedId(const json& node, const char* key) {
  ASSIGN_OR_RETURN(const json* pair, ArrayField(node, key));
  if (pair->size() != 2) return FieldError(node, key, "is not a token and its id");
  const json wrapped = {{key, (*pair)[1]}};
  return IdField(wrapped, key);
}

// [CLS] A [SEP] B [SEP], the last with type 1.
absl::StatusOr<Parts> ApplyBert(const json& node, Parts parts) {
  ASSIGN_OR_RETURN(const int32_t cls, PairedId(node, "cls"));
  ASSIGN_OR_RETURN(const int32_t sep, PairedId(node, "sep"));
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i == 0) parts[i].insert(parts[i].begin(), Special(cls, 0));
    parts[i].push_back(Special(sep, i == 0 ? 0 : 1));
  }
  return parts;
}

// <s> A </s> </s> B </s>, all of type 0.
absl::StatusOr<Parts> ApplyRoberta(const json& node, Parts parts) {
  ASSIGN_OR_RETURN(const int32_t cls, PairedId(node, "cls"));
  ASSIGN_OR_RETURN(const int32_t sep, PairedId(node, "sep"));
  for (size_t i = 0; i < parts.size(); ++i) {
    for (Piece& piece : parts[i]) piece.type = 0;
    parts[i].insert(parts[i].begin(), Special(i == 0 ? cls : sep, 0));
    parts[i].push_back(Special(sep, 0));
  }
  return parts;
}

// The ids that a template's special token stands for.
absl::StatusOr<Template> SpecialTokens(const json& node, const json& piece, int32_t type) {
  ASSIGN_OR_RETURN(const std::string name, StringField(piece, "id"));
  ASSIGN_OR_RETURN(const json* tokens, ObjectField(node, "special_tokens"));
  const json* token = FindField(*tokens, name);
  if (token == nullptr) return FieldError(node, "special_tokens", "lacks '" + name + "'");
  ASSIGN_OR_RETURN(const json* ids, ArrayField(*token, "ids"));
  Template part;
  for (const json& id : *ids) {
    const json wrapped = {{"id", id}};
    ASSIGN_OR_RETURN(const int32_t value, IdField(wrapped, "id"));
    part.push_back(Special(value, type));
  }
  return part;
}

// The part that {"Sequence": {"id": "A"}} names, all of it of the piece's type.
absl::StatusOr<Template> TextPart(const json& piece, int32_t type, const Parts& parts) {
  ASSIGN_OR_RETURN(const std::string id, StringField(piece, "id"));
  if (id != "A" && id != "B") return FieldError(piece, "id", "is neither 'A' nor 'B'");
  const size_t index = id == "A" ? 0 : 1;
  if (index >= parts.size()) return FieldError(piece, "id", "is 'B' where there is no second text");
  Template part = parts[index];
  for (Piece& inner : part) inner.type = type;
  return part;
}

absl::StatusOr<Parts> ApplyTemplate(const json& node, Parts parts) {
  if (parts.size() > 2) {
    return absl::UnimplementedError("TemplateProcessing behind another one is not supported");
  }
  const char* key = parts.size() == 1 ? "single" : "pair";
  if (parts.size() == 2 && FindField(node, key) == nullptr) return parts;
  ASSIGN_OR_RETURN(const json* pieces, ArrayField(node, key));
  Parts out;
  for (const json& piece : *pieces) {
    const json* special = FindField(piece, "SpecialToken");
    const json* text = FindField(piece, "Sequence");
    const json* inner = special != nullptr ? special : text;
    if (inner == nullptr) {
      return FieldError(node, key, "has neither a 'Sequence' nor a 'SpecialToken'");
    }
    ASSIGN_OR_RETURN(const int32_t type, IdField(*inner, "type_id", 0));
    ASSIGN_OR_RETURN(Template part, special != nullptr ? SpecialTokens(node, *special, type)
                                                       : TextPart(*text, type, parts));
    out.push_back(std::move(part));
  }
  return out;
}

absl::StatusOr<Parts> Apply(const json& node, Parts parts, int depth) {
  ASSIGN_OR_RETURN(const std::string type, StringField(node, "type"));
  if (type == "ByteLevel") return parts;  // moves offsets only
  if (type == "TemplateProcessing") return ApplyTemplate(node, std::move(parts));
  if (type == "BertProcessing") return ApplyBert(node, std::move(parts));
  if (type == "RobertaProcessing") return ApplyRoberta(node, std::move(parts));
  if (type != "Sequence") {
    return absl::UnimplementedError(
        absl::StrCat("post-processor type '", type, "' is not supported"));
  }
  if (depth == kMaxDepth) return FieldError(node, "processors", "is nested too deeply");
  ASSIGN_OR_RETURN(const json* processors, ArrayField(node, "processors"));
  for (const json& processor : *processors) {
    ASSIGN_OR_RETURN(parts, Apply(processor, std::move(parts), depth + 1));
  }
  return parts;
}

absl::StatusOr<Template> Process(const json* node, int texts) {
  Parts parts;
  for (int text = 0; text < texts; ++text) parts.push_back({{text, 0, text}});
  if (node != nullptr) {
    ASSIGN_OR_RETURN(parts, Apply(*node, std::move(parts), 0));
  }
  Template whole;
  for (const Template& part : parts) whole.insert(whole.end(), part.begin(), part.end());
  for (int text = 0; text < texts; ++text) {
    const auto is_text = [text](const Piece& piece) { return piece.text == text; };
    if (std::count_if(whole.begin(), whole.end(), is_text) != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("post_processor: does not hold ", texts == 1 ? "the text" : "both texts",
                       " exactly once ('", texts == 1 ? "single" : "pair", "')"));
    }
  }
  return whole;
}

}  // namespace

absl::StatusOr<PostProcessor> PostProcessor::FromJson(const json* node) {
  PostProcessor processor;
  ASSIGN_OR_RETURN(processor.single_, Process(node, 1));
  ASSIGN_OR_RETURN(processor.pair_, Process(node, 2));
  return processor;
}

}  // namespace penstock
