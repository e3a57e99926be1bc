#include "server/text/decoder.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "server/text/byte_alphabet.h"
#include "server/text/json_fields.h"
#include "server/text/unicode.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 16;  // of sequences in sequences

// "<0x0A>" becomes the byte; anything else stays.
void ReadByteToken(std::string* text) {
  if (text->size() != 6 || !absl::StartsWith(*text, "<0x") || text->back() != '>') return;
  if (!absl::ascii_isxdigit((*text)[3]) || !absl::ascii_isxdigit((*text)[4])) return;
  *text = absl::HexStringToBytes(text->substr(3, 2));
}

void StripEnds(absl::string_view content, int start, int stop, std::string* text) {
  absl::string_view rest = *text;
  while (start-- > 0 && absl::ConsumePrefix(&rest, content)) {
  }
  while (stop-- > 0 && absl::ConsumeSuffix(&rest, content)) {
  }
  *text = std::string(rest);
}

// Undoes the spaces of English text that was cut at its punctuation, one rule after the other.
void TidyEnglish(std::string* text) {
  constexpr std::pair<absl::string_view, absl::string_view> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
  };
  for (const auto& [from, to] : kRules) *text = absl::StrReplaceAll(*text, {{from, to}});
}

}  // namespace

absl::StatusOr<Decoder> Decoder::FromJson(const json* node) {
  Decoder decoder;
  if (node == nullptr) {
    decoder.steps_.push_back({Kind::kSpaceBetween, "", ""});
  } else {
    RETURN_IF_ERROR(decoder.Add(*node, 0));
  }
  return decoder;
}

absl::Status Decoder::Add(const json& node, int depth) {
  ASSIGN_OR_RETURN(const std::string type, StringField(node, "type"));
  if (type == "Sequence") {
    if (depth == kMaxDepth) return FieldError(node, "decoders", "is nested too deeply");
    ASSIGN_OR_RETURN(const json* parts, ArrayField(node, "decoders"));
    for (const json& part : *parts) RETURN_IF_ERROR(Add(part, depth + 1));
    return absl::OkStatus();
  }
  if (type == "Fuse") {
    fused_ = true;
    return absl::OkStatus();
  }
  if (type == "Replace") return AddReplace(node);
  if (type == "Strip") return AddStrip(node);
  if (fused_) {
    return absl::UnimplementedError(
        absl::StrCat("decoder type '", type, "' behind a Fuse is not supported"));
  }
  if (type == "Metaspace") return AddMetaspace(node);
  if (type == "WordPiece") return AddWordPiece(node);
  if (type == "ByteLevel") {
    steps_.push_back({Kind::kByteLevel, "", ""});
  } else if (type == "ByteFallback") {
    steps_.push_back({Kind::kByteFallback, "", ""});
  } else {
    return absl::UnimplementedError(absl::StrCat("decoder type '", type, "' is not supported"));
  }
  return absl::OkStatus();
}

absl::Status Decoder::AddReplace(const json& node) {
  ASSIGN_OR_RETURN(const json* pattern, ObjectField(node, "pattern"));
  ASSIGN_OR_RETURN(std::string from, StringField(*pattern, "String"));
  ASSIGN_OR_RETURN(std::string to, StringField(node, "content"));
  if (from.empty()) return FieldError(node, "pattern", "is empty");
  // A character that byte tokens spell is left as it is.
  if (fused_ && NextUtf8(from).length != static_cast<int>(from.size())) {
    return FieldError(node, "pattern", "may span tokens behind a Fuse, which is not supported");
  }
  steps_.push_back({Kind::kReplace, std::move(from), std::move(to)});
  return absl::OkStatus();
}

absl::Status Decoder::AddStrip(const json& node) {
  ASSIGN_OR_RETURN(std::string content, CharacterField(node, "content"));
  ASSIGN_OR_RETURN(const int32_t start, IdField(node, "start"));
  ASSIGN_OR_RETURN(const int32_t stop, IdField(node, "stop"));
  if (fused_ && (start > 1 || stop > 0)) {
    return absl::UnimplementedError(
        "Strip: more than one character at the start, or any at the end, of a fused text is not "
        "supported");
  }
  steps_.push_back({Kind::kStrip, std::move(content), "", start, stop, fused_});
  return absl::OkStatus();
}

absl::Status Decoder::AddMetaspace(const json& node) {
  ASSIGN_OR_RETURN(std::string mark, CharacterField(node, "replacement"));
  ASSIGN_OR_RETURN(const std::string scheme, StringField(node, "prepend_scheme", "always"));
  ASSIGN_OR_RETURN(const bool prefix, BoolField(node, "add_prefix_space", true));
  const bool drops_first = prefix && scheme != "never";
  steps_.push_back({Kind::kMetaspace, std::move(mark), "", 0, 0, drops_first});
  return absl::OkStatus();
}

absl::Status Decoder::AddWordPiece(const json& node) {
  ASSIGN_OR_RETURN(std::string prefix, StringField(node, "prefix", "##"));
  ASSIGN_OR_RETURN(const bool cleanup, BoolField(node, "cleanup", true));
  steps_.push_back({Kind::kWordPiece, std::move(prefix), "", 0, 0, false, cleanup});
  return absl::OkStatus();
}

void Decoder::Apply(const Step& step, bool first, std::string* text) {
  switch (step.kind) {
    case Kind::kByteLevel: FromByteAlphabet(*text, text); return;
    case Kind::kByteFallback: ReadByteToken(text); return;
    case Kind::kReplace: *text = absl::StrReplaceAll(*text, {{step.from, step.to}}); return;
    case Kind::kStrip:
      if (first || !step.first_only) StripEnds(step.from, step.start, step.stop, text);
      return;
    case Kind::kMetaspace:
      *text = absl::StrReplaceAll(*text, {{step.from, first && step.first_only ? "" : " "}});
      return;
    case Kind::kWordPiece:
      if (!first && !absl::StartsWith(*text, step.from)) {
        text->insert(0, " ");
      } else if (!first) {
        text->erase(0, step.from.size());
      }
      if (step.tidies) TidyEnglish(text);
      return;
    case Kind::kSpaceBetween:
      if (!first) text->insert(0, " ");
      return;
  }
}

std::string Decoder::Bytes(absl::string_view token, bool first) const {
  std::string text(token);
  for (const Step& step : steps_) Apply(step, first, &text);
  return text;
}

}  // namespace penstock
