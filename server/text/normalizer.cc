#include "server/text/normalizer.h"

#include <utf8proc.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/text/byte_alphabet.h"
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
  void Apply(RegexScratch&, std::string* text) const override { *text = Normalize(form_, *text); }
  bool MayChange(absl::string_view text) const override {
    return MayNeedNormalization(form_, text);
  }

 private:
  NormalForm form_;
};

class Prepend final : public Normalizer::Step {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  void Apply(RegexScratch&, std::string* text) const override { text->insert(0, prefix_); }
  bool MayChange(absl::string_view text) const override { return !text.empty(); }

 private:
  std::string prefix_;
};

class ReplaceMatches final : public Normalizer::Step {
 public:
  ReplaceMatches(Regex pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  void Apply(RegexScratch& scratch, std::string* text) const override {
    std::string out;
    out.reserve(text->size());
    pattern_.Visit(*text, scratch, [&](MatchSlice slice) {
      if (slice.is_match) {
        out += content_;
      } else {
        out.append(*text, slice.begin, slice.end - slice.begin);
      }
    });
    *text = std::move(out);
  }
  bool MayChange(absl::string_view text) const override { return !text.empty(); }

 private:
  Regex pattern_;
  std::string content_;
};

class Lowercase final : public Normalizer::Step {
 public:
  void Apply(RegexScratch&, std::string* text) const override {
    std::string out;
    out.reserve(text->size());
    for (absl::string_view rest = *text; !rest.empty();) {
      const Utf8Step step = NextUtf8(rest);
      rest.remove_prefix(step.length);
      if (step.code == 0x130) {  // the only character whose lower case is two
        out += "i\xCC\x87";
      } else {
        AppendUtf8(utf8proc_tolower(static_cast<utf8proc_int32_t>(step.code)), &out);
      }
    }
    *text = std::move(out);
  }
  bool MayChange(absl::string_view) const override { return true; }
};

class StripSpace final : public Normalizer::Step {
 public:
  StripSpace(bool left, bool right) : left_(left), right_(right) {}

  void Apply(RegexScratch&, std::string* text) const override {
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
  }
  bool MayChange(absl::string_view) const override { return true; }

 private:
  bool left_, right_;
};

class BytesToAlphabet final : public Normalizer::Step {
 public:
  void Apply(RegexScratch&, std::string* text) const override { *text = ToByteAlphabet(*text); }
  bool MayChange(absl::string_view) const override { return true; }
};

absl::StatusOr<std::unique_ptr<Normalizer::Step>> MakeStep(const json& node,
                                                           const std::string& type) {
  if (type == "NFC") return std::make_unique<UnicodeForm>(NormalForm::kNfc);
  if (type == "NFD") return std::make_unique<UnicodeForm>(NormalForm::kNfd);
  if (type == "NFKC") return std::make_unique<UnicodeForm>(NormalForm::kNfkc);
  if (type == "NFKD") return std::make_unique<UnicodeForm>(NormalForm::kNfkd);
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "ByteLevel") return std::make_unique<BytesToAlphabet>();
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
                                    std::string* buffer) const {
  bool copied = false;
  for (const auto& step : steps_) {
    if (!step->MayChange(copied ? absl::string_view(*buffer) : text)) continue;
    if (!copied) *buffer = std::string(text);
    copied = true;
    step->Apply(scratch, buffer);
  }
  return copied ? absl::string_view(*buffer) : text;
}

}  // namespace penstock
