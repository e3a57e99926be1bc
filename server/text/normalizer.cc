#include "server/text/normalizer.h"

#include <functional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/text/bert_normalizer.h"
#include "server/text/byte_alphabet.h"
#include "server/text/charsmap.h"
#include "server/text/json_fields.h"
#include "server/text/normalization.h"
#include "server/text/pattern.h"
#include "server/text/unicode.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 16;  // of sequences in sequences

class UnicodeForm final : public Normalizer::Step {
 public:
  explicit UnicodeForm(NormalForm form) : form_(form) {}
  bool Apply(RegexScratch&, std::string* text) const override {
    *text = Normalize(form_, *text);
    return true;
  }
  bool MayChange(absl::string_view text) const override {
    return MayNeedNormalization(form_, text);
  }

 private:
  NormalForm form_;
};

class Prepend final : public Normalizer::Step {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  bool Apply(RegexScratch&, std::string* text) const override {
    text->insert(0, prefix_);
    return true;
  }
  bool MayChange(absl::string_view text) const override { return !text.empty(); }

 private:
  std::string prefix_;
};

class ReplaceMatches final : public Normalizer::Step {
 public:
  ReplaceMatches(Regex pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  bool Apply(RegexScratch& scratch, std::string* text) const override {
    std::string out;
    out.reserve(text->size());
    bool keeps_beginning = true;
    pattern_.Visit(*text, scratch, [&](MatchSlice slice) {
      if (slice.is_match) {
        if (slice.begin == 0 && slice.end > 0 && content_.empty()) keeps_beginning = false;
        out += content_;
      } else {
        out.append(*text, slice.begin, slice.end - slice.begin);
      }
    });
    *text = std::move(out);
    return keeps_beginning;
  }
  bool MayChange(absl::string_view text) const override { return !text.empty(); }

 private:
  Regex pattern_;
  std::string content_;
};

// Replaces the whole text by a function of it.
class TextFunction final : public Normalizer::Step {
 public:
  using Function = std::function<std::string(absl::string_view)>;
  using Removes = std::function<bool(char32_t)>;  // characters that go without a trace
  TextFunction(Function function, Removes removes)
      : function_(std::move(function)), removes_(std::move(removes)) {}
  bool Apply(RegexScratch&, std::string* text) const override {
    const bool keeps_beginning =
        text->empty() || removes_ == nullptr || !removes_(NextUtf8(*text).code);
    *text = function_(*text);
    return keeps_beginning;
  }
  bool MayChange(absl::string_view) const override { return true; }

 private:
  Function function_;
  Removes removes_;
};

class StripSpace final : public Normalizer::Step {
 public:
  StripSpace(bool left, bool right) : left_(left), right_(right) {}

  bool Apply(RegexScratch&, std::string* text) const override {
    size_t begin = 0;
    size_t end = 0;  // behind the last character that stays
    bool seen = !left_;
    for (size_t i = 0; i < text->size();) {
      const Utf8Step step = NextUtf8(absl::string_view(*text).substr(i));
      const bool space = IsWhiteSpace(step.code);
      if (!space && !seen) begin = i;
      seen = seen || !space;
      i += step.length;
      if (!space || !right_) end = i;
    }
    *text = seen && end > begin ? text->substr(begin, end - begin) : "";
    return begin == 0;
  }
  bool MayChange(absl::string_view) const override { return true; }

 private:
  bool left_, right_;
};

// What SentencePiece's "nmt" rules remove, and what they take for spaces.
bool IsRemovedForNmt(char32_t c) {
  return (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F ||
         c == 0x8F || c == 0x9F;
}

bool IsSpaceForNmt(char32_t c) {
  return c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
         (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF ||
         c == 0xFFFD;
}

std::string CleanForNmt(absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = NextUtf8(text);
    if (IsSpaceForNmt(step.code)) {
      out += ' ';
    } else if (!IsRemovedForNmt(step.code)) {
      out.append(text.data(), step.length);
    }
    text.remove_prefix(step.length);
  }
  return out;
}

std::unique_ptr<Normalizer::Step> ChangeText(TextFunction::Function function,
                                             TextFunction::Removes removes = nullptr) {
  return std::make_unique<TextFunction>(std::move(function), std::move(removes));
}

absl::StatusOr<std::unique_ptr<Normalizer::Step>> MakeBert(const json& node) {
  BertNormalizer bert;
  ASSIGN_OR_RETURN(bert.clean_text, BoolField(node, "clean_text", true));
  ASSIGN_OR_RETURN(bert.handle_chinese_chars, BoolField(node, "handle_chinese_chars", true));
  ASSIGN_OR_RETURN(bert.lowercase, BoolField(node, "lowercase", true));
  ASSIGN_OR_RETURN(bert.strip_accents, BoolField(node, "strip_accents", bert.lowercase));
  return ChangeText([bert](absl::string_view text) { return bert.Apply(text); },
                    [bert](char32_t code) { return bert.Removes(code); });
}

absl::StatusOr<std::unique_ptr<Normalizer::Step>> MakePrecompiled(const json& node) {
  ASSIGN_OR_RETURN(const std::string encoded, StringField(node, "precompiled_charsmap"));
  std::string bytes;
  if (!absl::Base64Unescape(encoded, &bytes)) {
    return FieldError(node, "precompiled_charsmap", "is not base64");
  }
  auto parsed = Charsmap::Parse(bytes);
  if (!parsed.ok()) return FieldError(node, "precompiled_charsmap", parsed.status().message());
  auto map = std::make_shared<const Charsmap>(*std::move(parsed));
  return ChangeText([map](absl::string_view text) {
    std::string out;
    out.reserve(text.size());
    map->Apply(text, &out);
    return out;
  });
}

absl::StatusOr<std::unique_ptr<Normalizer::Step>> MakeStep(const json& node,
                                                           const std::string& type) {
  if (type == "NFC") return std::make_unique<UnicodeForm>(NormalForm::kNfc);
  if (type == "NFD") return std::make_unique<UnicodeForm>(NormalForm::kNfd);
  if (type == "NFKC") return std::make_unique<UnicodeForm>(NormalForm::kNfkc);
  if (type == "NFKD") return std::make_unique<UnicodeForm>(NormalForm::kNfkd);
  if (type == "Lowercase") return ChangeText(LowerCase);
  if (type == "ByteLevel") return ChangeText(ToByteAlphabet);
  if (type == "Nmt") return ChangeText(CleanForNmt, IsRemovedForNmt);
  if (type == "StripAccents") {
    return ChangeText([](absl::string_view text) { return RemoveCharacters(text, IsMark); },
                      IsMark);
  }
  if (type == "BertNormalizer") return MakeBert(node);
  if (type == "Precompiled") return MakePrecompiled(node);
  if (type == "Prepend") {
    ASSIGN_OR_RETURN(std::string prefix, StringField(node, "prepend"));
    return std::make_unique<Prepend>(std::move(prefix));
  }
  if (type == "Replace") {
    ASSIGN_OR_RETURN(Regex pattern, PatternField(node));
    ASSIGN_OR_RETURN(std::string content, StringField(node, "content"));
    return std::make_unique<ReplaceMatches>(std::move(pattern), std::move(content));
  }
  if (type == "Strip") {
    ASSIGN_OR_RETURN(const bool left, BoolField(node, "strip_left", true));
    ASSIGN_OR_RETURN(const bool right, BoolField(node, "strip_right", true));
    return std::make_unique<StripSpace>(left, right);
  }
  return absl::UnimplementedError(absl::StrCat("normalizer type '", type, "' is not supported"));
}

}  // namespace

absl::StatusOr<Normalizer> Normalizer::FromJson(const json* node) {
  Normalizer normalizer;
  if (node != nullptr) RETURN_IF_ERROR(normalizer.Add(*node, 0));
  return normalizer;
}

absl::Status Normalizer::Add(const json& node, int depth) {
  ASSIGN_OR_RETURN(const std::string type, StringField(node, "type"));
  if (type != "Sequence") {
    ASSIGN_OR_RETURN(auto step, MakeStep(node, type));
    steps_.push_back(std::move(step));
    return absl::OkStatus();
  }
  if (depth == kMaxDepth) return FieldError(node, "normalizers", "is nested too deeply");
  ASSIGN_OR_RETURN(const json* parts, ArrayField(node, "normalizers"));
  for (const json& part : *parts) RETURN_IF_ERROR(Add(part, depth + 1));
  return absl::OkStatus();
}

absl::string_view Normalizer::Apply(absl::string_view text, RegexScratch& scratch,
                                    std::string* buffer, bool* keeps_beginning) const {
  bool copied = false;
  bool kept = true;
  for (const auto& step : steps_) {
    if (!step->MayChange(copied ? absl::string_view(*buffer) : text)) continue;
    if (!copied) *buffer = std::string(text);
    copied = true;
    kept = step->Apply(scratch, buffer) && kept;
  }
  if (keeps_beginning != nullptr) *keeps_beginning = kept;
  return copied ? absl::string_view(*buffer) : text;
}

}  // namespace penstock
