// Whatever the bytes are, a tokenizer neither crashes nor throws: they are read as a
// tokenizer.json, and as a text by a small tokenizer of each kind.

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/text/gguf_tokenizer.h"
#include "server/text/text_stream.h"
#include "server/text/tokenizer.h"
#include "server/text/unicode.h"

namespace penstock {
namespace {

// Every byte has a token in the byte alphabet only where the letter is itself; enough for a text's
// bytes to reach every step.
constexpr char kByteLevel[] = R"({
  "added_tokens": [
    {"content": "<|a|>", "special": true, "normalized": false, "lstrip": true},
    {"content": "<|", "special": false, "normalized": false, "rstrip": true},
    {"content": "ab", "special": false, "normalized": true, "single_word": true}],
  "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}, {"type": "NFD"}]},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "behavior": "Isolated", "pattern": {"Regex":
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
    {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]},
  "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "unk_token": "?", "vocab": {"?": 0, "a": 1, "b": 2, "\u0120": 3, "\u0120a": 4, "aa": 5},
            "merges": ["\u0120 a", "a a"]}})";

constexpr char kSentencePiece[] = R"({
  "normalizer": {"type": "Sequence", "normalizers": [{"type": "Strip"}, {"type": "Prepend", "prepend": "\u2581"}]},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Digits"}, {"type": "Punctuation", "behavior": "MergedWithNext"}, {"type": "Whitespace"},
    {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first"}]},
  "decoder": {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
  "model": {"type": "BPE", "unk_token": "?", "fuse_unk": true, "byte_fallback": true,
            "vocab": {"?": 0, "a": 1, "\u2581": 2, "\u2581a": 3, "<0xC3>": 4, "<0xA9>": 5, "aa": 6},
            "merges": [["a", "a"], ["\u2581", "a"]]}})";

std::unique_ptr<Tokenizer> Committed(const char* json) {
  auto tokenizer = Tokenizer::FromJson(json);
  if (!tokenizer.ok()) std::abort();
  return *std::move(tokenizer);
}

void ReadAsText(const Tokenizer& tokenizer, absl::string_view text, bool parse) {
  const auto ids =
      tokenizer.Encode(text, {.add_special_tokens = true, .parse_special_tokens = parse});
  TextStreamOptions options;
  options.stop = {"aa", "\xEF\xBF\xBD\xEF\xBF\xBD", std::string(text.substr(0, 3))};
  TextStream stream(tokenizer, options);
  std::string streamed;
  for (const int32_t id : ids) streamed += stream.Add(id);
  streamed += stream.Finish();
  if (!IsValidUtf8(streamed)) std::abort();
}

// A document that holds together has to work, too.
void ReadAsTokenizer(absl::string_view bytes) {
  const auto tokenizer = Tokenizer::FromJson(bytes);
  if (tokenizer.ok())
    ReadAsText(**tokenizer, "Hello, <|a|> w\xC3\xB6rld 123 \xE4\xBD\xA0\n\n  x", true);
  const auto metadata = nlohmann::json::parse(bytes.begin(), bytes.end(), nullptr, false);
  (void)TokenizerJsonFromGguf(metadata);
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto byte_level = penstock::Committed(penstock::kByteLevel);
  static const auto sentence_piece = penstock::Committed(penstock::kSentencePiece);
  const std::string bytes(data, data + size);
  penstock::ReadAsTokenizer(bytes);
  for (const bool parse : {true, false}) {
    penstock::ReadAsText(*byte_level, bytes, parse);
    penstock::ReadAsText(*sentence_piece, bytes, parse);
  }
  return 0;
}
