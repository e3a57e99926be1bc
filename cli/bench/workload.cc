#include "cli/bench/workload.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace penstock {
namespace {

// Common enough to be one token each in nearly every vocabulary, behind a blank.
constexpr const char* kWords[] = {
    "the",   "of",   "and",     "to",    "in",    "is",    "that",   "for",  "with",  "as",
    "was",   "on",   "are",     "by",    "be",    "this",  "from",   "have", "or",    "one",
    "had",   "not",  "but",     "what",  "all",   "were",  "when",   "we",   "there", "can",
    "an",    "your", "which",   "their", "said",  "if",    "will",   "each", "about", "how",
    "up",    "out",  "them",    "then",  "she",   "many",  "some",   "so",   "these", "would",
    "other", "into", "has",     "more",  "her",   "two",   "like",   "him",  "see",   "time",
    "could", "no",   "make",    "than",  "first", "been",  "its",    "who",  "now",   "people",
    "my",    "made", "over",    "did",   "down",  "only",  "way",    "find", "use",   "may",
    "water", "long", "little",  "very",  "after", "words", "called", "just", "where", "most",
    "know",  "get",  "through", "back",  "much",  "go",    "good",   "new",  "write", "our"};

}  // namespace

Workload::Workload(Options options) : options_(std::move(options)) {
  RandomStream random(options_.seed, RandomStream::Purpose::kSharedPrefix, 0);
  for (int32_t i = 0; i < options_.shared_prefix; ++i) prefix_.push_back(DrawPiece(random));
}

PlannedRequest Workload::Plan(int64_t index) const {
  RandomStream lengths(options_.seed, RandomStream::Purpose::kLengths, index);
  RandomStream content(options_.seed, RandomStream::Purpose::kPrompt, index);
  const int64_t rows = static_cast<int64_t>(options_.trace.size());
  // Warm-up has indices below 0.
  const TraceRow* row =
      rows > 0 ? &options_.trace[static_cast<size_t>((index % rows + rows) % rows)] : nullptr;
  PlannedRequest request;
  request.index = index;
  request.output_tokens = row ? row->output_tokens : options_.output_tokens.Draw(lengths);
  for (int32_t i = 0; i < options_.inputs; ++i) {
    const int32_t length = row ? row->prompt_tokens : options_.prompt_tokens.Draw(lengths);
    request.prompt_tokens += length;
    request.inputs.push_back(MakeInput(length, content));
  }
  return request;
}

PromptInput Workload::MakeInput(int32_t length, RandomStream& random) const {
  PromptInput input;
  const int32_t shared = std::min(length, options_.shared_prefix);
  for (int32_t i = 0; i < length; ++i) {
    const int32_t piece = i < shared ? prefix_[static_cast<size_t>(i)] : DrawPiece(random);
    if (options_.as_text) {
      absl::StrAppend(&input.text, i > 0 ? " " : "", kWords[piece]);
    } else {
      input.tokens.push_back(piece);
    }
  }
  return input;
}

int32_t Workload::DrawPiece(RandomStream& random) const {
  const int64_t words = static_cast<int64_t>(std::size(kWords));
  return static_cast<int32_t>(random.Below(options_.as_text ? words : options_.vocab));
}

}  // namespace penstock
