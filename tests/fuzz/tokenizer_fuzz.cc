// Whatever the bytes are, a tokenizer neither crashes nor throws: they are read as a
// tokenizer.json, and as a text by a small tokenizer of each kind.

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "server/text/bert_vocab.h"
#include "server/text/charsmap.h"
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

constexpr char kBert[] = R"({
  "added_tokens": [{"content": "[SEP]", "special": true, "normalized": false}],
  "normalizer": {"type": "BertNormalizer", "strip_accents": null},
  "pre_tokenizer": {"type": "BertPreTokenizer"},
  "post_processor": {"type": "Sequence", "processors": [{"type": "BertProcessing", "cls": ["a", 1], "sep": ["[SEP]", 7]}]},
  "decoder": {"type": "WordPiece"},
  "model": {"type": "WordPiece", "max_input_chars_per_word": 9,
            "vocab": {"[UNK]": 0, "a": 1, "##a": 2, "aa": 3, "b": 4, "##\u00e9": 5, "\u4f60": 6}}})";

// CHARSMAP is replaced.
constexpr char kUnigram[] = R"({
  "normalizer": {"type": "Sequence", "normalizers": [
    {"type": "Nmt"}, {"type": "Precompiled", "precompiled_charsmap": "CHARSMAP"}, {"type": "NFKD"}, {"type": "StripAccents"},
    {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"}]},
  "post_processor": {"type": "RobertaProcessing", "cls": ["a", 1], "sep": ["?", 0]},
  "decoder": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"},
  "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": true, "vocab": [["?", 0], ["a", -2.5], ["\u2581", -1], ["\u2581a", -3],
            ["<0xC3>", -4], ["<0xA9>", -4], ["aa", -4.5], ["ab", -1], ["bbbb", -2]]}})";

// Rules for single letters: B becomes "ab", R nothing.
std::string SmallCharsmap() {
  std::vector<uint32_t> units(512);
  units[0] = 256 << 10;
  const std::string replacements("ab\0\0", 4);
  for (const auto& [letter, value] : {std::pair('B', 0u), std::pair('R', 3u)}) {
    const uint32_t at = 256u ^ static_cast<uint32_t>(letter);
    units[at] = static_cast<uint32_t>(letter) | 1u << 8 | 1u << 10;
    units[at ^ 1] = 1u << 31 | value;
  }
  units.insert(units.begin(), static_cast<uint32_t>(units.size() * sizeof(uint32_t)));
  return std::string(reinterpret_cast<const char*>(units.data()), units.size() * sizeof(uint32_t)) +
         replacements;
}

std::unique_ptr<Tokenizer> Committed(const std::string& json) {
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
  const auto half = text.substr(text.size() / 2);
  const Encoding encoding = tokenizer.EncodeInput(text, half, 1 + text.size() % 16);
  if (encoding.ids.size() != encoding.types.size()) std::abort();
}

// A document that holds together has to work, too.
void ReadAsTokenizer(absl::string_view bytes) {
  const auto tokenizer = Tokenizer::FromJson(bytes);
  if (tokenizer.ok())
    ReadAsText(**tokenizer, "Hello, <|a|> w\xC3\xB6rld 123 \xE4\xBD\xA0\n\n  x", true);
  const auto map = Charsmap::Parse(bytes);
  std::string mapped;
  if (map.ok()) map->Apply("a\xC3\xA9 \xEF\xBC\xA1\r\n\xEF\xAC\x81", &mapped);
  if (!IsValidUtf8(mapped)) std::abort();
  const auto vocab = ReadBertVocab(bytes, nullptr);
  if (vocab.ok()) (void)TokenizerJsonFromBertVocab(*vocab);
  const auto metadata = nlohmann::json::parse(bytes.begin(), bytes.end(), nullptr, false);
  (void)TokenizerJsonFromGguf(metadata);
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto byte_level = penstock::Committed(penstock::kByteLevel);
  static const auto sentence_piece = penstock::Committed(penstock::kSentencePiece);
  static const auto bert = penstock::Committed(penstock::kBert);
  static const auto unigram = penstock::Committed(absl::StrReplaceAll(
      penstock::kUnigram, {{"CHARSMAP", absl::Base64Escape(penstock::SmallCharsmap())}}));
  const std::string bytes(data, data + size);
  penstock::ReadAsTokenizer(bytes);
  for (const bool parse : {true, false}) {
    penstock::ReadAsText(*byte_level, bytes, parse);
    penstock::ReadAsText(*sentence_piece, bytes, parse);
    penstock::ReadAsText(*bert, bytes, parse);
    penstock::ReadAsText(*unigram, bytes, parse);
  }
  return 0;
}
