// The other side of tests/golden/compare_tokenizers.py: reads requests from the standard input,
// writes what our tokenizer makes of them to the standard output.
//
//   tokenize PATH       PATH is a tokenizer.json, a .gguf file or a checkpoint folder
//
// All numbers are little-endian u32. A request is kind, flags, length and so many bytes:
//   kind 0, encode: flags 1 add_special_tokens, 2 parse_special_tokens; the bytes are the text.
//     Answer: count, ids, length and bytes of their Decode, and whether the pieces that Bytes gives
//     one by one are the same bytes (1 or 0).
//   kind 1, decode: flag 1 skip_special_tokens; the bytes are ids.
//     Answer: length and bytes of Decode, and whether a TextStream gives the same text (1 or 0).
//   kind 2, encode an input: flags is max_tokens; the bytes are a number, the text and its pair: so
//     many bytes the text has, or 0xFFFFFFFF when there is no pair.
//     Answer: count, ids, types.

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "server/text/text_stream.h"
#include "server/text/tokenizer.h"
#include "server/text/unicode.h"
#include "shard/base/status_macros.h"
#include "shard/checkpoint/checkpoint.h"

namespace penstock {
namespace {

bool ReadNumber(uint32_t* value) { return std::fread(value, sizeof(*value), 1, stdin) == 1; }

void WriteNumber(uint32_t value) { std::fwrite(&value, sizeof(value), 1, stdout); }

void WriteBytes(const std::string& bytes) {
  WriteNumber(static_cast<uint32_t>(bytes.size()));
  std::fwrite(bytes.data(), 1, bytes.size(), stdout);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Open(const std::string& path) {
  if (absl::EndsWith(path, ".json")) {
    std::ifstream file(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    return Tokenizer::FromJson(text);
  }
  ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(path));
  return Tokenizer::Load(*checkpoint);
}

void AnswerEncode(const Tokenizer& tokenizer, uint32_t flags, const std::string& text) {
  const std::vector<int32_t> ids = tokenizer.Encode(
      text, {.add_special_tokens = (flags & 1) != 0, .parse_special_tokens = (flags & 2) != 0});
  WriteNumber(static_cast<uint32_t>(ids.size()));
  std::fwrite(ids.data(), sizeof(int32_t), ids.size(), stdout);
  const std::string decoded = tokenizer.Decode(ids, /*skip_special_tokens=*/false);
  WriteBytes(decoded);
  std::string pieces;
  for (size_t i = 0; i < ids.size(); ++i) pieces += tokenizer.Bytes(ids[i], i == 0);
  WriteNumber(pieces == decoded);
}

void AnswerDecode(const Tokenizer& tokenizer, uint32_t flags, const std::string& payload) {
  std::vector<int32_t> ids(payload.size() / sizeof(int32_t));
  std::memcpy(ids.data(), payload.data(), ids.size() * sizeof(int32_t));
  const bool skip = (flags & 1) != 0;
  const std::string decoded = tokenizer.Decode(ids, skip);
  WriteBytes(decoded);
  TextStreamOptions options;
  options.skip_special_tokens = skip;
  TextStream stream(tokenizer, options);
  std::string streamed;
  for (const int32_t id : ids) streamed += stream.Add(id);
  streamed += stream.Finish();
  WriteNumber(streamed == ReplaceInvalidUtf8(decoded));
}

void AnswerInput(const Tokenizer& tokenizer, uint32_t max_tokens, absl::string_view payload) {
  constexpr uint32_t kNoPair = 0xFFFFFFFF;
  uint32_t length = 0;
  std::memcpy(&length, payload.data(), sizeof(length));
  payload.remove_prefix(sizeof(length));
  const Encoding encoding =
      length == kNoPair
          ? tokenizer.EncodeInput(payload, std::nullopt, max_tokens)
          : tokenizer.EncodeInput(payload.substr(0, length), payload.substr(length), max_tokens);
  WriteNumber(static_cast<uint32_t>(encoding.ids.size()));
  std::fwrite(encoding.ids.data(), sizeof(int32_t), encoding.ids.size(), stdout);
  std::fwrite(encoding.types.data(), sizeof(int32_t), encoding.types.size(), stdout);
}

int Serve(const std::string& path) {
  const auto tokenizer = Open(path);
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.status() << "\n";
    return 1;
  }
  uint32_t kind = 0;
  uint32_t flags = 0;
  uint32_t length = 0;
  while (ReadNumber(&kind) && ReadNumber(&flags) && ReadNumber(&length)) {
    std::string payload(length, '\0');
    if (std::fread(payload.data(), 1, length, stdin) != length) return 1;
    if (kind == 0) {
      AnswerEncode(**tokenizer, flags, payload);
    } else if (kind == 2) {
      if (length < sizeof(uint32_t)) return 1;
      AnswerInput(**tokenizer, flags, payload);
    } else {
      AnswerDecode(**tokenizer, flags, payload);
    }
  }
  return 0;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: tokenize PATH\n";
    return 2;
  }
  return penstock::Serve(argv[1]);
}
