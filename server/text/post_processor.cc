#include "server/text/post_processor.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "server/text/json_fields.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 16;  // of sequences in sequences

// Puts `outer` around `inner`.
void Wrap(const PostProcessor& outer, PostProcessor* inner) {
  inner->prefix.insert(inner->prefix.begin(), outer.prefix.begin(), outer.prefix.end());
  inner->suffix.insert(inner->suffix.end(), outer.suffix.begin(), outer.suffix.end());
}

// The ids that a template's special token stands for.
absl::Status AppendTokens(const json& node, const json& piece, std::vector<int32_t>* ids) {
  ASSIGN_OR_RETURN(const std::string name, StringField(piece, "id"));
  ASSIGN_OR_RETURN(const json* tokens, ObjectField(node, "special_tokens"));
  const json* token = FindField(*tokens, name);
  if (token == nullptr) return FieldError(node, "special_tokens", "lacks '" + name + "'");
  ASSIGN_OR_RETURN(const json* list, ArrayField(*token, "ids"));
  for (const json& id : *list) {
    const json wrapped = {{"id", id}};
    ASSIGN_OR_RETURN(const int32_t value, IdField(wrapped, "id"));
    ids->push_back(value);
  }
  return absl::OkStatus();
}

absl::StatusOr<PostProcessor> ParseTemplate(const json& node) {
  ASSIGN_OR_RETURN(const json* pieces, ArrayField(node, "single"));
  PostProcessor processor;
  int texts = 0;
  for (const json& piece : *pieces) {
    if (const json* special = FindField(piece, "SpecialToken")) {
      auto* ids = texts == 0 ? &processor.prefix : &processor.suffix;
      RETURN_IF_ERROR(AppendTokens(node, *special, ids));
    } else if (FindField(piece, "Sequence") != nullptr) {
      ++texts;
    } else {
      return FieldError(node, "single", "has neither a 'Sequence' nor a 'SpecialToken'");
    }
  }
  if (texts != 1) return FieldError(node, "single", "does not hold the text exactly once");
  return processor;
}

// ["[SEP]", 102]
absl::StatusOr<int32_t> PairedId(const json& node, const char* key) {
  ASSIGN_OR_RETURN(const json* pair, ArrayField(node, key));
  if (pair->size() != 2) return FieldError(node, key, "is not a token and its id");
  const json wrapped = {{key, (*pair)[1]}};
  return IdField(wrapped, key);
}

absl::StatusOr<PostProcessor> ParseBert(const json& node) {
  ASSIGN_OR_RETURN(const int32_t first, PairedId(node, "cls"));
  ASSIGN_OR_RETURN(const int32_t last, PairedId(node, "sep"));
  return PostProcessor{{first}, {last}};
}

absl::StatusOr<PostProcessor> Parse(const json& node, int depth) {
  ASSIGN_OR_RETURN(const std::string type, StringField(node, "type"));
  if (type == "ByteLevel") return PostProcessor{};  // moves offsets only
  if (type == "TemplateProcessing") return ParseTemplate(node);
  if (type == "BertProcessing" || type == "RobertaProcessing") return ParseBert(node);
  if (type != "Sequence") {
    return absl::UnimplementedError(
        absl::StrCat("post-processor type '", type, "' is not supported"));
  }
  if (depth == kMaxDepth) return FieldError(node, "processors", "is nested too deeply");
  ASSIGN_OR_RETURN(const json* parts, ArrayField(node, "processors"));
  PostProcessor all;
  for (const json& part : *parts) {
    ASSIGN_OR_RETURN(const PostProcessor outer, Parse(part, depth + 1));
    Wrap(outer, &all);
  }
  return all;
}

}  // namespace

absl::StatusOr<PostProcessor> PostProcessor::FromJson(const json* node) {
  if (node == nullptr) return PostProcessor{};
  return Parse(*node, 0);
}

}  // namespace penstock
