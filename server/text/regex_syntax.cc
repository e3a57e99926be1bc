#include "server/text/regex_syntax.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/text/unicode.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

constexpr size_t kNone = absl::string_view::npos;
constexpr absl::string_view kHexDigits = "0-9A-Fa-f";
// Oniguruma counts the superscripts and fractions of Latin-1 as word characters.
constexpr absl::string_view kWordChars =
    "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}";

class Rewriter {
 public:
  explicit Rewriter(absl::string_view pattern) : pattern_(pattern), rest_(pattern) {}

  absl::StatusOr<std::string> Rewrite() {
    while (!rest_.empty()) {
      switch (rest_[0]) {
        case '\\': RETURN_IF_ERROR(Escape()); break;
        case '[': RETURN_IF_ERROR(Class()); break;
        case '(': RETURN_IF_ERROR(OpenGroup()); break;
        case ')': CloseGroup(); break;
        case '{': Interval(); break;
        case '*':
        case '+':
        case '?': Quantifier(); break;
        case '|':
        case '^':
        case '$':
          atom_ = kNone;
          Copy(1);
          break;
        default: Literal(); break;
      }
    }
    return std::move(out_);
  }

 private:
  absl::Status Unsupported(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("regular expression '", pattern_, "': ", what, " not supported"));
  }

  void Copy(size_t count) {
    count = std::min(count, rest_.size());
    out_.append(rest_.data(), count);
    rest_.remove_prefix(count);
  }

  void Replace(size_t count, absl::string_view text) {
    out_.append(text.data(), text.size());
    rest_.remove_prefix(count);
  }

  void Literal() {
    atom_ = out_.size();
    Copy(Utf8Length(rest_[0]));
  }

  absl::Status Escape() {
    atom_ = out_.size();
    if (rest_.size() < 2) return Unsupported("a trailing backslash is");
    switch (rest_[1]) {
      case 'h': Replace(2, absl::StrCat("[", kHexDigits, "]")); break;
      case 'H': Replace(2, absl::StrCat("[^", kHexDigits, "]")); break;
      case 'w': Replace(2, absl::StrCat("[", kWordChars, "]")); break;
      case 'W': Replace(2, absl::StrCat("[^", kWordChars, "]")); break;
      default: CommonEscape(); break;
    }
    return absl::OkStatus();
  }

  // Escapes that mean the same inside and outside of a class.
  void CommonEscape() {
    if (rest_[1] == 'u' && rest_.size() >= 6) {
      const std::string code = absl::StrCat("\\x{", rest_.substr(2, 4), "}");
      Replace(6, code);
    } else if ((rest_[1] == 'p' || rest_[1] == 'P' || rest_[1] == 'x') && rest_.size() > 2 &&
               rest_[2] == '{') {
      const size_t close = rest_.find('}');
      Copy(close == kNone ? rest_.size() : close + 1);
    } else {
      Copy(1);
      Copy(Utf8Length(rest_[0]));
    }
  }

  absl::Status Class() {
    atom_ = out_.size();
    Copy(1);
    if (absl::StartsWith(rest_, "^")) Copy(1);
    if (absl::StartsWith(rest_, "]")) Copy(1);
    while (!rest_.empty() && rest_[0] != ']') {
      if (absl::StartsWith(rest_, "&&")) return Unsupported("an intersection of classes is");
      if (rest_[0] == '\\') {
        RETURN_IF_ERROR(ClassEscape());
      } else if (absl::StartsWith(rest_, "[:")) {
        const size_t close = rest_.find(":]");
        Copy(close == kNone ? rest_.size() : close + 2);
      } else if (rest_[0] == '[') {
        return Unsupported("a class inside a class is");
      } else {
        Copy(Utf8Length(rest_[0]));
      }
    }
    Copy(1);
    return absl::OkStatus();
  }

  absl::Status ClassEscape() {
    if (rest_.size() < 2) return Unsupported("a trailing backslash is");
    switch (rest_[1]) {
      case 'h': Replace(2, kHexDigits); break;
      case 'w': Replace(2, kWordChars); break;
      case 'H':
      case 'W': return Unsupported("\\H or \\W in a class is");
      default: CommonEscape(); break;
    }
    return absl::OkStatus();
  }

  absl::Status OpenGroup() {
    if (absl::StartsWith(rest_, "(*")) return Unsupported("'(*' is");
    groups_.push_back(out_.size());
    atom_ = kNone;
    Copy(1);
    if (!absl::StartsWith(rest_, "?")) return absl::OkStatus();
    Copy(1);
    // Ruby's m lets the dot match newlines; PCRE2 calls that s.
    while (!rest_.empty() && (absl::ascii_isalpha(rest_[0]) || rest_[0] == '-')) {
      if (rest_[0] == 'm') {
        Replace(1, "s");
      } else {
        Copy(1);
      }
    }
    if (!rest_.empty() && absl::StrContains(":=!>", rest_.substr(0, 1))) Copy(1);
    return absl::OkStatus();
  }

  void CloseGroup() {
    atom_ = groups_.empty() ? kNone : groups_.back();
    if (!groups_.empty()) groups_.pop_back();
    Copy(1);
  }

  // What follows '<' in (?<=..., (?<name>... passes as literals, which is what PCRE2 reads too.
  void Quantifier() {
    Copy(1);
    if (absl::StartsWith(rest_, "+") || absl::StartsWith(rest_, "?")) Copy(1);
  }

  // "{n,m}", "{n}", "{n,}" or "{,m}" after an atom; anything else is a literal brace.
  void Interval() {
    const size_t close = rest_.find('}');
    const absl::string_view body = close == kNone ? "" : rest_.substr(1, close - 1);
    if (atom_ == kNone || !IsIntervalBody(body)) {
      atom_ = out_.size();
      Replace(1, "\\{");
      return;
    }
    const bool exact = !absl::StrContains(body, ',');
    Replace(close + 1, absl::StrCat("{", body[0] == ',' ? "0" : "", body, "}"));
    // In Ruby a '+' here repeats the interval and is not possessive, and {n}? makes it optional.
    const bool again = absl::StartsWith(rest_, "+") || (exact && absl::StartsWith(rest_, "?"));
    if (again) {
      out_.insert(atom_, "(?:");
      out_.push_back(')');
      Copy(1);
    } else if (absl::StartsWith(rest_, "?")) {
      Copy(1);
    }
  }

  static bool IsIntervalBody(absl::string_view body) {
    int commas = 0;
    int digits = 0;
    for (const char c : body) {
      if (c == ',') {
        ++commas;
      } else if (absl::ascii_isdigit(c)) {
        ++digits;
      } else {
        return false;
      }
    }
    return digits > 0 && commas <= 1;
  }

  absl::string_view pattern_;
  absl::string_view rest_;
  std::string out_;
  size_t atom_ = kNone;         // where in out_ the item begins that a quantifier would repeat
  std::vector<size_t> groups_;  // where the open groups begin
};

}  // namespace

absl::StatusOr<std::string> OnigurumaToPcre2(absl::string_view pattern) {
  return Rewriter(pattern).Rewrite();
}

}  // namespace penstock
