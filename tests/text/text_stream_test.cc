#include "server/text/text_stream.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/text/unicode.h"
#include "tests/text/files.h"

namespace penstock {
namespace {

// Replays pieces: id i stands for piece i; ids from 1000 on are special.
class ReplayTokenizer final : public Tokenizer {
 public:
  explicit ReplayTokenizer(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {}
  std::vector<int32_t> Encode(absl::string_view, const EncodeOptions&) const override { return {}; }
  Encoding EncodeInput(absl::string_view, std::optional<absl::string_view>, size_t) const override {
    return {};
  }
  std::string Decode(const std::vector<int32_t>& ids, bool skip) const override {
    std::string text;
    for (const int32_t id : ids) {
      if (!skip || !IsSpecial(id)) text += Bytes(id, false);
    }
    return text;
  }
  std::string Bytes(int32_t id, bool) const override {
    return IsSpecial(id) ? "<special>" : pieces_.at(id);
  }
  bool IsSpecial(int32_t id) const override { return id >= 1000; }
  int32_t vocab_size() const override { return 2000; }

 private:
  std::vector<std::string> pieces_;
};

struct Replay {
  std::vector<std::string> deltas;  // one per piece, then Finish
  std::string text;
  bool stopped;
  std::string match;
};

Replay Stream(const std::vector<std::string>& pieces, TextStreamOptions options) {
  const ReplayTokenizer tokenizer(pieces);
  TextStream stream(tokenizer, std::move(options));
  Replay replay;
  for (size_t i = 0; i < pieces.size(); ++i) {
    replay.deltas.push_back(stream.Add(static_cast<int32_t>(i)));
  }
  replay.deltas.push_back(stream.Finish());
  for (const std::string& delta : replay.deltas) {
    EXPECT_TRUE(IsValidUtf8(delta));
    replay.text += delta;
  }
  replay.stopped = stream.stopped();
  replay.match = stream.stop_match();
  return replay;
}

Replay Stream(const std::vector<std::string>& pieces, std::vector<std::string> stop = {}) {
  TextStreamOptions options;
  options.stop = std::move(stop);
  return Stream(pieces, options);
}

using Deltas = std::vector<std::string>;

TEST(TextStream, CharacterOverSeveralTokens) {
  const Replay replay = Stream({"\xF0\x9F", "\xA6", "\x99"});
  EXPECT_EQ(replay.deltas, (Deltas{"", "", "\U0001F999", ""}));
}

TEST(TextStream, CharacterCutShortAtTheEnd) {
  const Replay replay = Stream({"A ", "\xE4\xB8"});
  EXPECT_EQ(replay.deltas, (Deltas{"A ", "", "\uFFFD"}));
}

TEST(TextStream, CharacterThatNeverCompletes) {
  EXPECT_EQ(Stream({"\xE4\xB8", "x"}).deltas, (Deltas{"", "\uFFFDx", ""}));
  EXPECT_EQ(Stream({"\xFF\xC3", "\xA9"}).deltas, (Deltas{"\uFFFD", "\u00e9", ""}));
}

TEST(TextStream, NothingOfAStopStringLeaks) {
  const Replay replay = Stream({"ABC", "DEF", "G", "HI", "J"}, {"DEFGHIJ"});
  EXPECT_EQ(replay.deltas, (Deltas{"ABC", "", "", "", "", ""}));
  EXPECT_TRUE(replay.stopped);
  EXPECT_EQ(replay.match, "DEFGHIJ");
}

TEST(TextStream, HeldTextIsReleased) {
  const Replay replay = Stream({"DEF", "G", "X"}, {"DEFGHIJ"});
  EXPECT_EQ(replay.deltas, (Deltas{"", "", "DEFGX", ""}));
  EXPECT_FALSE(replay.stopped);
}

TEST(TextStream, HeldTextIsReleasedAtTheEnd) {
  EXPECT_EQ(Stream({"DEF", "G"}, {"DEFGHIJ"}).deltas, (Deltas{"", "", "DEFG"}));
}

TEST(TextStream, StopInsideTokens) {
  const Replay replay = Stream({" Par", "is"}, {"Pari"});
  EXPECT_EQ(replay.text, " ");
  EXPECT_TRUE(replay.stopped);
}

TEST(TextStream, PrefixOfAStopIsNotDoubled) {
  EXPECT_EQ(Stream({" Alice", "!"}, {"\n", "Alice:"}).text, " Alice!");
}

TEST(TextStream, NewlinesHoweverTheyAreCut) {
  EXPECT_EQ(Stream({"\n\n"}, {"\n\n"}).text, "");
  EXPECT_EQ(Stream({"\n", "\n"}, {"\n\n"}).text, "");
  EXPECT_EQ(Stream({".\n\n"}, {"\n\n"}).text, ".");
  EXPECT_TRUE(Stream({".\n\n"}, {"\n\n"}).stopped);
}

TEST(TextStream, StopStringCanStay) {
  TextStreamOptions options;
  options.stop = {"END"};
  options.include_stop = true;
  const Replay replay = Stream({"a E", "N", "D more", "x"}, options);
  EXPECT_EQ(replay.deltas, (Deltas{"a ", "", "END", "", ""}));
}

TEST(TextStream, FirstCompleteStopWinsThenTheLongest) {
  EXPECT_EQ(Stream({"xabcd"}, {"abcd", "bc"}).text, "xa");
  EXPECT_EQ(Stream({"xabc"}, {"bc", "abc", "c"}).match, "abc");
  EXPECT_EQ(Stream({"aab"}, {"ab"}).text, "a");
}

TEST(TextStream, OverlappingPrefixesAreHeldOnlyAsLongAsNeeded) {
  EXPECT_EQ(Stream({"aa", "a", "b"}, {"aac"}).deltas, (Deltas{"", "a", "aab", ""}));
}

TEST(TextStream, StopStringThatABrokenCharacterSpells) {
  EXPECT_EQ(Stream({"a\xE4", "b"}, {"\uFFFD"}).text, "a");
  EXPECT_TRUE(Stream({"a\xE4"}, {"\uFFFD"}).stopped);  // found by Finish
}

TEST(TextStream, EmptyStopStringsDoNothing) { EXPECT_EQ(Stream({"ab"}, {""}).text, "ab"); }

TEST(TextStream, SkippedSpecialTokensLeaveCharactersWhole) {
  const ReplayTokenizer tokenizer({"\xE4\xB8", "\xAD"});
  TextStream skipping(tokenizer, {});
  EXPECT_EQ(skipping.Add(0), "");
  EXPECT_EQ(skipping.Add(1000), "");
  EXPECT_EQ(skipping.Add(1), "\u4e2d");
  TextStreamOptions options;
  options.skip_special_tokens = false;
  TextStream showing(tokenizer, options);
  EXPECT_EQ(showing.Add(0), "");
  EXPECT_EQ(showing.Add(1000), "\uFFFD<special>");
  EXPECT_EQ(showing.Add(1), "\uFFFD");
}

TEST(TextStream, LeadingSpaceOfSentencePiece) {
  const auto tokenizer = LoadTokenizer("spm-legacy");
  ASSERT_NE(tokenizer, nullptr);
  const auto ids = tokenizer->Encode("a    b", {.add_special_tokens = false});
  TextStream opening(*tokenizer, {});
  std::string text;
  for (const int32_t id : ids) text += opening.Add(id);
  EXPECT_EQ(text + opening.Finish(), "a    b");
  TextStreamOptions options;
  options.continues_text = true;
  TextStream continuing(*tokenizer, options);
  text.clear();
  for (const int32_t id : ids) text += continuing.Add(id);
  EXPECT_EQ(text + continuing.Finish(), " a    b");
}

// The definition, on the whole text: the smallest end of a match, then the longest.
std::string CutAtStop(const std::string& text, const std::vector<std::string>& stops) {
  size_t best_end = std::string::npos;
  size_t best_begin = 0;
  for (const std::string& stop : stops) {
    const size_t begin = text.find(stop);
    if (begin == std::string::npos) continue;
    const size_t end = begin + stop.size();
    if (end < best_end || (end == best_end && begin < best_begin)) {
      best_end = end;
      best_begin = begin;
    }
  }
  return best_end == std::string::npos ? text : text.substr(0, best_begin);
}

TEST(TextStream, EqualsTheWholeTextOnRandomTokensAndStops) {
  std::mt19937 random(11);
  const std::vector<std::string> atoms = {"a",        "b",        "ab",   "\xC3", "\xA9", "\u00e9",
                                          "\xF0\x9F", "\xA6\x99", "\xFF", "\n",   "ba",   ""};
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::string> pieces;
    for (size_t i = random() % 12; i > 0; --i) pieces.push_back(atoms[random() % atoms.size()]);
    std::vector<std::string> stops;
    for (size_t i = random() % 4; i > 0; --i) {
      std::string stop;
      for (size_t j = 1 + random() % 4; j > 0; --j) stop += atoms[random() % 3];
      if (random() % 8 == 0) stop += "\u00e9";
      stops.push_back(stop);
    }
    std::string bytes;
    for (const std::string& piece : pieces) bytes += piece;
    ASSERT_EQ(Stream(pieces, stops).text, CutAtStop(ReplaceInvalidUtf8(bytes), stops));
  }
}

}  // namespace
}  // namespace penstock
