#include "server/text/byte_alphabet.h"

#include <array>
#include <utility>

#include "server/text/unicode.h"

namespace penstock {
namespace {

constexpr bool IsPrintable(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr char32_t kFirstOther = 0x100;
constexpr int kOthers = 68;

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<unsigned char, kOthers> other{};  // the byte that kFirstOther + i stands for
};

constexpr Alphabet MakeAlphabet() {
  Alphabet alphabet;
  int others = 0;
  for (int byte = 0; byte < 256; ++byte) {
    if (IsPrintable(byte)) {
      alphabet.character[byte] = static_cast<char32_t>(byte);
    } else {
      alphabet.other[others] = static_cast<unsigned char>(byte);
      alphabet.character[byte] = kFirstOther + static_cast<char32_t>(others++);
    }
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = MakeAlphabet();

}  // namespace

std::string ToByteAlphabet(absl::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char byte : bytes) {
    AppendUtf8(kAlphabet.character[static_cast<unsigned char>(byte)], &text);
  }
  return text;
}

bool FromByteAlphabet(absl::string_view text, std::string* bytes) {
  std::string out;
  while (!text.empty()) {
    const Utf8Step step = NextUtf8(text);
    text.remove_prefix(step.length);
    if (step.code < 0x100 && IsPrintable(static_cast<int>(step.code))) {
      out.push_back(static_cast<char>(step.code));
    } else if (step.code >= kFirstOther && step.code < kFirstOther + kOthers) {
      out.push_back(static_cast<char>(kAlphabet.other[step.code - kFirstOther]));
    } else {
      return false;
    }
  }
  *bytes = std::move(out);
  return true;
}

}  // namespace penstock
