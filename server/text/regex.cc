#define PCRE2_CODE_UNIT_WIDTH 8
#include "server/text/regex.h"

#include <pcre2.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/text/regex_syntax.h"
#include "server/text/unicode.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

constexpr size_t kMaxPatternBytes = 16 * 1024;
constexpr uint32_t kMatchLimit = 10'000'000;  // backtracking steps per match
constexpr uint32_t kHeapLimitKiB = 64 * 1024;
constexpr size_t kJitStackMax = 16 * 1024 * 1024;

struct Free {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
  void operator()(pcre2_compile_context* p) const { pcre2_compile_context_free(p); }
  void operator()(pcre2_jit_stack* p) const { pcre2_jit_stack_free(p); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

PCRE2_SPTR Units(absl::string_view text) {
  // An empty view may have no data at all, which PCRE2 refuses.
  return reinterpret_cast<PCRE2_SPTR>(text.empty() ? "" : text.data());
}

}  // namespace

struct RegexScratch::State {
  Owned<pcre2_match_data> data;
  Owned<pcre2_match_context> context;
  Owned<pcre2_jit_stack> stack;  // once the machine stack was too small
};

RegexScratch::RegexScratch() : state_(std::make_unique<State>()) {
  state_->data.reset(pcre2_match_data_create(1, nullptr));
  state_->context.reset(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(state_->context.get(), kMatchLimit);
  pcre2_set_heap_limit(state_->context.get(), kHeapLimitKiB);
}

RegexScratch::~RegexScratch() = default;

struct Regex::Program {
  Owned<pcre2_code> code;  // null for a literal
  bool jit = false;
  std::string literal;

  int Match(absl::string_view text, size_t from, RegexScratch::State& state) const {
    auto* data = state.data.get();
    auto* context = state.context.get();
    if (jit) return pcre2_jit_match(code.get(), Units(text), text.size(), from, 0, data, context);
    return pcre2_match(code.get(), Units(text), text.size(), from, PCRE2_NO_UTF_CHECK, data,
                       context);
  }
};

Regex::Regex(std::unique_ptr<Program> program) : program_(std::move(program)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

absl::StatusOr<Regex> Regex::Compile(absl::string_view pattern) {
  ASSIGN_OR_RETURN(const std::string translated, OnigurumaToPcre2(pattern));
  Owned<pcre2_compile_context> context(pcre2_compile_context_create(nullptr));
  pcre2_set_max_pattern_length(context.get(), kMaxPatternBytes);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  // In Ruby ^ and $ always mean lines.
  constexpr uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  auto program = std::make_unique<Program>();
  program->code.reset(pcre2_compile(Units(translated), translated.size(), kOptions, &error, &offset,
                                    context.get()));
  if (program->code == nullptr) {
    PCRE2_UCHAR message[256] = {};
    pcre2_get_error_message(error, message, sizeof(message));
    return absl::InvalidArgumentError(absl::StrCat("regular expression '", pattern,
                                                   "': ", reinterpret_cast<const char*>(message)));
  }
  program->jit = pcre2_jit_compile(program->code.get(), PCRE2_JIT_COMPLETE) == 0;
  return Regex(std::move(program));
}

absl::StatusOr<Regex> Regex::Literal(absl::string_view text) {
  if (text.empty()) return Compile("");
  auto program = std::make_unique<Program>();
  program->literal = std::string(text);
  return Regex(std::move(program));
}

// The first match at or after `from`; false also when a limit was hit.
bool Regex::Find(absl::string_view text, size_t from, RegexScratch::State& state,
                 MatchSlice* match) const {
  if (!program_->literal.empty()) {
    const size_t begin = text.find(program_->literal, from);
    *match = {begin, begin + program_->literal.size(), true};
    return begin != absl::string_view::npos;
  }
  int found = program_->Match(text, from, state);
  if (found == PCRE2_ERROR_JIT_STACKLIMIT && state.stack == nullptr) {
    state.stack.reset(pcre2_jit_stack_create(64 * 1024, kJitStackMax, nullptr));
    pcre2_jit_stack_assign(state.context.get(), nullptr, state.stack.get());
    found = program_->Match(text, from, state);
  }
  if (found < 0) return false;
  const size_t* bounds = pcre2_get_ovector_pointer(state.data.get());
  *match = {bounds[0], bounds[1], true};
  return match->begin <= match->end;
}

void Regex::Visit(absl::string_view text, RegexScratch& scratch,
                  absl::FunctionRef<void(MatchSlice)> visit) const {
  if (text.empty()) return;
  std::string old;
  const absl::string_view subject = ReplaceYoungCharacters(text, &old) ? old : text;
  size_t previous = 0;  // the end of what was visited
  size_t from = 0;
  bool matched = false;
  MatchSlice match{};
  while (from <= subject.size() && Find(subject, from, *scratch.state_, &match)) {
    if (match.begin == match.end && matched && match.end == previous) {
      // An empty match right behind the last one does not count.
      from += from < subject.size() ? Utf8Length(subject[from]) : 1;
      continue;
    }
    if (previous != match.begin) visit({previous, match.begin, false});
    visit(match);
    previous = from = match.end;
    matched = true;
  }
  if (previous != text.size()) visit({previous, text.size(), false});
}

}  // namespace penstock
