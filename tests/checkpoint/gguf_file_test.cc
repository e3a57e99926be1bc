#include "shard/checkpoint/gguf_file.h"

#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/checkpoint/checkpoint.h"
#include "tests/checkpoint/files.h"

namespace penstock {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::string kFour = RawOne(1.0f);

struct BadGguf {
  const char* what;
  std::string bytes;
  const char* message;  // part of the error
};

GgufWriter Writer() {
  GgufWriter writer;
  writer.Text("general.architecture", "odd");
  return writer;
}

GgufWriter Changed(const std::function<void(GgufWriter&)>& change) {
  GgufWriter writer = Writer();
  writer.Tensor("t", {1}, 0, kFour);
  change(writer);
  return writer;
}

// An array of type 9 of one array of type 9 ..., `depth` of them.
std::string NestedArray(int depth) {
  std::string bytes;
  for (int i = 0; i < depth; ++i) bytes += RawOne<uint32_t>(9) + RawOne<uint64_t>(1);
  return bytes;
}

std::vector<BadGguf> BadHeaders() {
  const std::string good = Changed([](GgufWriter&) {}).Bytes();
  return {
      {"empty", "", "ends at byte 0"},
      {"other magic", "GGML" + good.substr(4), "does not begin with GGUF"},
      {"version 1", Changed([](auto& w) { w.version = 1; }).Bytes(), "version 1;"},
      {"version 4", Changed([](auto& w) { w.version = 4; }).Bytes(), "version 4;"},
      {"big-endian", Changed([](auto& w) { w.version = 3u << 24; }).Bytes(), "big-endian"},
      {"tensors beyond the file", Changed([](auto& w) { w.extra_tensors = 1000; }).Bytes(),
       "a count of 1001"},
      {"2^64 - 1 keys", Changed([](auto& w) { w.extra_pairs = -2; }).Bytes(), "a count of"},
      {"one tensor too many", Changed([](auto& w) { w.extra_tensors = 1; }).Bytes(), ""},
      {"key twice", Changed([](auto& w) { w.U32("k", 1).U32("k", 2); }).Bytes(),
       "key k: occurs twice"},
      {"unknown value type", Changed([](auto& w) { w.Pair("k", 13, "x"); }).Bytes(),
       "key k: the value type 13"},
      {"unknown element type",
       Changed([](auto& w) { w.Pair("k", 9, RawOne<uint32_t>(99) + RawOne<uint64_t>(1)); }).Bytes(),
       "key k: the value type 99"},
      {"text beyond the file",
       Changed([](auto& w) { w.Pair("k", 8, RawOne<uint64_t>(1 << 20)); }).Bytes(),
       "key k: a text of 1048576 bytes"},
      {"text of 2^64 - 1", Changed([](auto& w) { w.Pair("k", 8, RawOne(~uint64_t{0})); }).Bytes(),
       "key k: a text of 18446744073709551615 bytes"},
      {"array beyond the file", Changed([](auto& w) {
                                  w.Pair("k", 9, RawOne<uint32_t>(8) + RawOne<uint64_t>(1 << 20));
                                }).Bytes(),
       "key k: a count of 1048576"},
      {"array of 2^61 numbers",
       Changed([](auto& w) {
         w.Pair("k", 9, RawOne<uint32_t>(10) + RawOne<uint64_t>(uint64_t{1} << 61));
       }).Bytes(),
       "key k: a count of 2305843009213693952"},
      {"deep arrays", Changed([](auto& w) { w.Pair("k", 9, NestedArray(10'000)); }).Bytes(),
       "key k: arrays nest deeper"},
      {"odd alignment", Changed([](auto& w) { w.U32("general.alignment", 12); }).Bytes(),
       "general.alignment"},
      {"no alignment", Changed([](auto& w) { w.U32("general.alignment", 0); }).Bytes(),
       "general.alignment"},
      {"text as alignment", Changed([](auto& w) { w.Text("general.alignment", "x"); }).Bytes(),
       "general.alignment"},
  };
}

std::vector<BadGguf> BadTensors() {
  const std::string block(18, '\0');
  const uint64_t big = uint64_t{1} << 40;
  return {
      {"twice", Writer().Tensor("t", {1}, 0, kFour).Tensor("t", {1}, 0, kFour).Bytes(),
       "tensor t: occurs twice"},
      {"five dimensions", Writer().Tensor("t", {1, 1, 1, 1, 1}, 0, kFour).Bytes(),
       "tensor t: has 5 dimensions"},
      {"2^63 columns", Writer().Tensor("t", {uint64_t{1} << 63}, 0, kFour).Bytes(),
       "tensor t: has a dimension of 9223372036854775808"},
      {"overflow of elements", Writer().Tensor("t", {big, big}, 0, kFour).Bytes(),
       "tensor t: has more elements"},
      {"overflow hidden by a zero", Writer().Tensor("t", {big, big, 0}, 0, kFour).Bytes(),
       "tensor t: has more elements"},
      {"overflow of bytes", Writer().Tensor("t", {uint64_t{1} << 62}, 0, kFour).Bytes(),
       "tensor t: 4611686018427387904 elements"},
      {"half a block", Writer().Tensor("t", {2, 16}, 2, block).Bytes(),
       "tensor t: rows of 16 are no whole number of Q4_0 blocks"},
      {"a scalar in blocks", Writer().Tensor("t", {}, 2, block).Bytes(),
       "tensor t: rows of 1 are no whole number of Q4_0 blocks"},
      {"data beyond the file", Writer().Tensor("t", {1 << 20}, 0, kFour).Bytes(),
       "tensor t: has 4194304 bytes at 0, but the file has 4"},
      {"unaligned", Changed([](auto& w) { w.first_offset = 4; }).Bytes(),
       "tensor t: its offset 4 is no multiple of 32"},
      {"offset beyond the file", Changed([](auto& w) { w.first_offset = 1 << 20; }).Bytes(),
       "tensor t: has 4 bytes at 1048576"},
      {"offset of 2^63", Changed([](auto& w) { w.first_offset = uint64_t{1} << 63; }).Bytes(),
       "tensor t: its data begins at byte"},
      {"overlap",
       Writer()
           .Tensor("a", {16}, 0, kFour)
           .Tensor("b", {1}, 0, kFour + std::string(60, 'x'))
           .Bytes(),
       "tensor b: its data overlaps that of a"},
      {"name of 2000 bytes", Writer().Tensor(std::string(2000, 'n'), {1}, 0, kFour).Bytes(),
       "a text of 2000 bytes"},
  };
}

void ExpectRefused(const std::vector<BadGguf>& files) {
  const TempFolder folder;
  for (const BadGguf& bad : files) {
    const std::string path = folder.Write("bad.gguf", bad.bytes);
    const auto opened = Checkpoint::Open(path);
    ASSERT_FALSE(opened.ok()) << bad.what;
    EXPECT_THAT(opened.status().message(), AllOf(HasSubstr(path), HasSubstr(bad.message)))
        << bad.what;
  }
}

TEST(GgufFileTest, RefusesBadHeadersNamingFileAndKey) { ExpectRefused(BadHeaders()); }

TEST(GgufFileTest, RefusesBadTensorsNamingThem) { ExpectRefused(BadTensors()); }

TEST(GgufFileTest, AFileCutShortAnywhereIsRefused) {
  const std::string bytes =
      Writer()
          .Pair("k", 9,
                RawOne<uint32_t>(8) + RawOne<uint64_t>(2) + GgufString("ab") + GgufString("c"))
          .Tensor("t", {2, 32}, 2, std::string(36, 'q'))
          .Bytes();
  const TempFolder folder;
  for (size_t length = 0; length < bytes.size(); ++length) {
    const auto opened = Checkpoint::Open(folder.Write("cut.gguf", bytes.substr(0, length)));
    ASSERT_FALSE(opened.ok()) << length;
    EXPECT_THAT(opened.status().message(), HasSubstr("cut.gguf: ")) << length;
  }
  EXPECT_TRUE(Checkpoint::Open(folder.Write("cut.gguf", bytes)).ok());
}

TEST(GgufFileTest, VersionTwoAndOtherAlignmentsAreRead) {
  const TempFolder folder;
  GgufWriter writer = Writer();
  writer.version = 2;
  writer.U32("general.alignment", 8).Tensor("t", {1}, 0, RawOne(7.0f));
  std::string bytes = writer.Bytes();
  const auto opened = Checkpoint::Open(folder.Write("two.gguf", bytes));
  ASSERT_TRUE(opened.ok()) << opened.status();
  // The writer pads to 32, so the data is looked for where the header's padding to 8 ends.
  EXPECT_TRUE((*opened)->Find("t").ok());
  EXPECT_EQ((*opened)->metadata()["general.alignment"], 8);
}

TEST(GgufFileTest, TensorsOfOtherTypesAreListedButNotRead) {
  const TempFolder folder;
  const auto opened =
      Checkpoint::Open(folder.Write("types.gguf", Writer()
                                                      .Tensor("iq", {256}, 18, std::string(98, 'q'))
                                                      .Tensor("future", {5, 3}, 77, "")
                                                      .Tensor("fine", {1}, 0, kFour)
                                                      .Bytes()));
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*opened)->Find("iq")->stored_type, "IQ3_XXS");
  EXPECT_EQ((*opened)->Find("iq")->stored_bytes, 98);
  std::vector<float> out(256);
  EXPECT_THAT((*opened)->Read("iq", {0, 1}, {0, 256}, DType::kF32, out.data(), nullptr).message(),
              AllOf(HasSubstr("types.gguf: tensor iq: "), HasSubstr("IQ3_XXS")));
  EXPECT_THAT((*opened)->Read("future", {0, 5}, {0, 3}, DType::kF32, out.data(), nullptr).message(),
              AllOf(HasSubstr("types.gguf: tensor future: "), HasSubstr("ggml type 77")));
  EXPECT_TRUE((*opened)->Read("fine", {0, 1}, {0, 1}, DType::kF32, out.data(), nullptr).ok());
}

}  // namespace
}  // namespace penstock
