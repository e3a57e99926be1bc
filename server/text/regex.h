#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace penstock {

// A slice of a text, between or of a pattern's matches; byte offsets.
struct MatchSlice {
  size_t begin, end;
  bool is_match;
};

// The memory of a search. One per thread; any number of patterns may use it, also while they visit.
class RegexScratch {
 public:
  RegexScratch();
  ~RegexScratch();

 private:
  friend class Regex;
  struct State;
  std::unique_ptr<State> state_;
};

// A compiled regular expression of a tokenizer (Oniguruma's Ruby dialect, Unicode classes).
// Immutable after Compile, safe to share.
class Regex {
 public:
  static absl::StatusOr<Regex> Compile(absl::string_view pattern);
  // Matches `text` itself.
  static absl::StatusOr<Regex> Literal(absl::string_view text);
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  // Visits slices that cover `text` (valid UTF-8) in order; empty matches are visited too. The work
  // per match is bounded (a count, so the result never depends on the machine): when the bound is
  // hit, the rest of the text is one slice without a match.
  void Visit(absl::string_view text, RegexScratch& scratch,
             absl::FunctionRef<void(MatchSlice)> visit) const;

 private:
  struct Program;
  explicit Regex(std::unique_ptr<Program> program);
  bool Find(absl::string_view text, size_t from, RegexScratch::State& state,
            MatchSlice* match) const;

  std::unique_ptr<Program> program_;
};

}  // namespace penstock
