#include "server/text/pre_tokenizer.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/text/byte_alphabet.h"
#include "server/text/json_fields.h"
#include "server/text/pattern.h"
#include "server/text/split_behavior.h"
#include "server/text/unicode.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

using nlohmann::json;
using Visit = PreTokenizer::Visit;

constexpr int kMaxDepth = 16;  // of sequences in sequences
// The expression of GPT-2 (Radford et al. 2019, encoder.py), which ByteLevel brings along.
constexpr char kGpt2Pattern[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

TextPiece Part(const TextPiece& piece, size_t begin, size_t end) {
  return {piece.text.substr(begin, end - begin), piece.opens_text && begin == 0};
}

void VisitSlices(SplitBehavior behavior, const std::vector<MatchSlice>& slices,
                 const TextPiece& piece, Visit visit) {
  for (const MatchSlice& slice : ApplyBehavior(behavior, slices)) {
    visit(Part(piece, slice.begin, slice.end));
  }
}

class SplitByPattern final : public PreTokenizer::Step {
 public:
  SplitByPattern(Regex pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void Cut(TextPiece piece, RegexScratch& scratch, Visit visit) const override {
    if (behavior_ == SplitBehavior::kIsolated) {
      pattern_.Visit(piece.text, scratch,
                     [&](MatchSlice slice) { visit(Part(piece, slice.begin, slice.end)); });
      return;
    }
    std::vector<MatchSlice> slices;
    pattern_.Visit(piece.text, scratch, [&](MatchSlice slice) {
      slice.is_match = slice.is_match != invert_;
      slices.push_back(slice);
    });
    VisitSlices(behavior_, slices, piece, visit);
  }

 private:
  Regex pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// Every character of a class is a delimiter by itself.
class SplitByClass final : public PreTokenizer::Step {
 public:
  using IsDelimiter = bool (*)(char32_t);
  SplitByClass(IsDelimiter is_delimiter, SplitBehavior behavior)
      : is_delimiter_(is_delimiter), behavior_(behavior) {}

  void Cut(TextPiece piece, RegexScratch&, Visit visit) const override {
    std::vector<MatchSlice> slices;
    size_t begin = 0;
    for (size_t i = 0; i < piece.text.size();) {
      const Utf8Step step = NextUtf8(piece.text.substr(i));
      if (is_delimiter_(step.code)) {
        if (begin < i) slices.push_back({begin, i, false});
        begin = i + step.length;
        slices.push_back({i, begin, true});
      }
      i += step.length;
    }
    if (begin < piece.text.size()) slices.push_back({begin, piece.text.size(), false});
    VisitSlices(behavior_, slices, piece, visit);
  }

 private:
  IsDelimiter is_delimiter_;
  SplitBehavior behavior_;
};

// Runs of word characters and runs of anything else but white space: \w+|[^\w\s]+
class SplitWords final : public PreTokenizer::Step {
 public:
  void Cut(TextPiece piece, RegexScratch&, Visit visit) const override {
    size_t begin = 0;
    Kind kind = kSpace;
    for (size_t i = 0; i < piece.text.size();) {
      const Utf8Step step = NextUtf8(piece.text.substr(i));
      const Kind next = KindOf(step.code);
      if (next != kind) {
        if (kind != kSpace) visit(Part(piece, begin, i));
        begin = i;
        kind = next;
      }
      i += step.length;
    }
    if (kind != kSpace) visit(Part(piece, begin, piece.text.size()));
  }

 private:
  enum Kind { kSpace, kWord, kOther };
  static Kind KindOf(char32_t code) {
    return IsWordChar(code) ? kWord : IsWhiteSpace(code) ? kSpace : kOther;
  }
};

enum class PrependScheme { kFirst, kNever, kAlways };

class Metaspace final : public PreTokenizer::Step {
 public:
  Metaspace(std::string replacement, PrependScheme scheme, bool split)
      : replacement_(std::move(replacement)), scheme_(scheme), split_(split) {}

  void Cut(TextPiece piece, RegexScratch&, Visit visit) const override {
    std::string text = absl::StrReplaceAll(piece.text, {{" ", replacement_}});
    const bool wanted =
        scheme_ == PrependScheme::kAlways || (scheme_ == PrependScheme::kFirst && piece.opens_text);
    if (wanted && !absl::StartsWith(text, replacement_)) text.insert(0, replacement_);
    const TextPiece replaced{text, piece.opens_text};
    size_t begin = 0;
    while (split_ && begin < text.size()) {  // the replacement begins the next word
      const size_t next = text.find(replacement_, begin + 1);
      if (next == std::string::npos) break;
      visit(Part(replaced, begin, next));
      begin = next;
    }
    visit(Part(replaced, begin, text.size()));
  }

 private:
  std::string replacement_;
  PrependScheme scheme_;
  bool split_;
};

// The last part of ByteLevel: bytes in their spelling, for models that don't read plain bytes.
class SpellBytes final : public PreTokenizer::Step {
 public:
  void Cut(TextPiece piece, RegexScratch&, Visit visit) const override {
    visit({ToByteAlphabet(piece.text), piece.opens_text});
  }
};

// A space in front of every piece that lacks one: the first part of ByteLevel.
class PrefixSpace final : public PreTokenizer::Step {
 public:
  void Cut(TextPiece piece, RegexScratch&, Visit visit) const override {
    if (absl::StartsWith(piece.text, " ")) return visit(piece);
    const std::string text = absl::StrCat(" ", piece.text);
    visit({text, piece.opens_text});
  }
};

absl::StatusOr<std::unique_ptr<PreTokenizer::Step>> MakeMetaspace(const json& node) {
  ASSIGN_OR_RETURN(std::string replacement, CharacterField(node, "replacement"));
  ASSIGN_OR_RETURN(const std::string name, StringField(node, "prepend_scheme", "always"));
  ASSIGN_OR_RETURN(const bool prefix, BoolField(node, "add_prefix_space", true));
  ASSIGN_OR_RETURN(const bool split, BoolField(node, "split", true));
  PrependScheme scheme = PrependScheme::kAlways;
  if (name == "first") {
    scheme = PrependScheme::kFirst;
  } else if (name == "never" || !prefix) {
    scheme = PrependScheme::kNever;
  } else if (name != "always") {
    return FieldError(node, "prepend_scheme", "is '" + name + "', which is not known");
  }
  return std::make_unique<Metaspace>(std::move(replacement), scheme, split);
}

absl::StatusOr<std::unique_ptr<PreTokenizer::Step>> MakeStep(const json& node,
                                                             const std::string& type) {
  if (type == "Split") {
    ASSIGN_OR_RETURN(Regex pattern, PatternField(node));
    ASSIGN_OR_RETURN(const SplitBehavior behavior, BehaviorField(node));
    ASSIGN_OR_RETURN(const bool invert, BoolField(node, "invert", false));
    return std::make_unique<SplitByPattern>(std::move(pattern), behavior, invert);
  }
  if (type == "Digits") {
    ASSIGN_OR_RETURN(const bool individual, BoolField(node, "individual_digits", false));
    return std::make_unique<SplitByClass>(
        IsNumeric, individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
  }
  if (type == "Punctuation") {
    ASSIGN_OR_RETURN(const SplitBehavior behavior, BehaviorField(node, SplitBehavior::kIsolated));
    return std::make_unique<SplitByClass>(IsPunctuation, behavior);
  }
  if (type == "WhitespaceSplit") {
    return std::make_unique<SplitByClass>(IsWhiteSpace, SplitBehavior::kRemoved);
  }
  if (type == "CharDelimiterSplit") {
    ASSIGN_OR_RETURN(const std::string delimiter, CharacterField(node, "delimiter"));
    ASSIGN_OR_RETURN(Regex pattern, Regex::Literal(delimiter));
    return std::make_unique<SplitByPattern>(std::move(pattern), SplitBehavior::kRemoved,
                                            /*invert=*/false);
  }
  if (type == "Whitespace") return std::make_unique<SplitWords>();
  if (type == "Metaspace") return MakeMetaspace(node);
  return absl::UnimplementedError(absl::StrCat("pre-tokenizer type '", type, "' is not supported"));
}

}  // namespace

absl::StatusOr<PreTokenizer> PreTokenizer::FromJson(const json* node) {
  PreTokenizer pre_tokenizer;
  if (node != nullptr) RETURN_IF_ERROR(pre_tokenizer.Add(*node, 0));
  return pre_tokenizer;
}

absl::Status PreTokenizer::Add(const json& node, int depth) {
  ASSIGN_OR_RETURN(const std::string type, StringField(node, "type"));
  if (type == "Sequence") {
    if (depth == kMaxDepth) return FieldError(node, "pretokenizers", "is nested too deeply");
    ASSIGN_OR_RETURN(const json* parts, ArrayField(node, "pretokenizers"));
    for (const json& part : *parts) RETURN_IF_ERROR(Add(part, depth + 1));
    return absl::OkStatus();
  }
  if (byte_level_) {
    return absl::UnimplementedError(
        absl::StrCat("pre-tokenizer '", type, "' behind a ByteLevel is not supported"));
  }
  if (type == "BertPreTokenizer") {
    for (const char* step : {"WhitespaceSplit", "Punctuation"}) {
      ASSIGN_OR_RETURN(auto half, MakeStep({{"type", step}}, step));
      steps_.push_back(std::move(half));
    }
    return absl::OkStatus();
  }
  if (type != "ByteLevel") {
    ASSIGN_OR_RETURN(auto step, MakeStep(node, type));
    steps_.push_back(std::move(step));
    return absl::OkStatus();
  }
  byte_level_ = true;
  ASSIGN_OR_RETURN(const bool prefix, BoolField(node, "add_prefix_space", true));
  ASSIGN_OR_RETURN(const bool use_regex, BoolField(node, "use_regex", true));
  if (prefix) steps_.push_back(std::make_unique<PrefixSpace>());
  if (use_regex) {
    ASSIGN_OR_RETURN(Regex pattern, Regex::Compile(kGpt2Pattern));
    steps_.push_back(std::make_unique<SplitByPattern>(std::move(pattern), SplitBehavior::kIsolated,
                                                      /*invert=*/false));
  }
  return absl::OkStatus();
}

void PreTokenizer::SpellOutBytes() {
  if (!std::exchange(byte_level_, false)) return;
  steps_.push_back(std::make_unique<SpellBytes>());
}

void PreTokenizer::Run(size_t step, TextPiece piece, RegexScratch& scratch, Visit visit) const {
  if (piece.text.empty()) return;
  if (step == steps_.size()) return visit(piece);
  steps_[step]->Cut(piece, scratch, [&](TextPiece part) { Run(step + 1, part, scratch, visit); });
}

}  // namespace penstock
