#include "shard/checkpoint/safetensors.h"

#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/base/half.h"
#include "shard/checkpoint/checkpoint.h"
#include "tests/checkpoint/files.h"

namespace penstock {
namespace {

using testing::HasSubstr;

// A folder with one weights file.
std::unique_ptr<Checkpoint> OpenWith(const TempFolder& folder, const std::string& weights) {
  folder.Write("config.json", R"({"model_type": "llama"})");
  folder.Write("model.safetensors", weights);
  auto opened = Checkpoint::Open(folder.path());
  EXPECT_TRUE(opened.ok()) << opened.status();
  return opened.ok() ? *std::move(opened) : nullptr;
}

TEST(SafetensorsTest, ReadsEveryStoredTypeAsEveryWantedType) {
  const std::vector<float> values = {1.0f, -2.5f, 0.375f, 1000.0f, 3.0f, -0.0f};
  std::vector<uint16_t> halves, brains;
  for (const float value : values) {
    halves.push_back(FloatToHalf(value));
    brains.push_back(FloatToBf16(value));
  }
  const TempFolder folder;
  const auto checkpoint =
      OpenWith(folder, SafetensorsFile(R"({"__metadata__": {"format": "pt"},
        "f": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [36, 48]},
        "h": {"dtype": "F16", "shape": [2, 3], "data_offsets": [24, 36]}}   )",
                                       Raw(values) + Raw(halves) + Raw(brains)));
  ASSERT_NE(checkpoint, nullptr);
  EXPECT_EQ(checkpoint->config()["model_type"], "llama");
  EXPECT_TRUE(checkpoint->metadata().is_null());
  EXPECT_EQ(checkpoint->Tensors().size(), 3u);
  for (const char* name : {"f", "h", "b"}) {
    std::vector<float> floats(6);
    std::vector<uint16_t> half(6), brain(6);
    ASSERT_TRUE(checkpoint->Read(name, {0, 2}, {0, 3}, DType::kF32, floats.data(), nullptr).ok());
    ASSERT_TRUE(checkpoint->Read(name, {0, 2}, {0, 3}, DType::kF16, half.data(), nullptr).ok());
    ASSERT_TRUE(checkpoint->Read(name, {0, 2}, {0, 3}, DType::kBF16, brain.data(), nullptr).ok());
    EXPECT_EQ(floats, values) << name;
    EXPECT_EQ(half, halves) << name;
    EXPECT_EQ(brain, brains) << name;
  }
}

TEST(SafetensorsTest, DescribesTensors) {
  const TempFolder folder;
  const auto checkpoint = OpenWith(
      folder, SafetensorsFile(R"({"s": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]},
        "e": {"dtype": "I64", "shape": [7, 0, 2], "data_offsets": [4, 4]},
        "c": {"dtype": "F32", "shape": [2, 2, 3], "data_offsets": [4, 52]}})",
                              Raw(std::vector<float>(13, 2.0f))));
  ASSERT_NE(checkpoint, nullptr);
  const auto info = checkpoint->Find("c");
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->shape, (std::vector<int64_t>{2, 2, 3}));
  EXPECT_EQ(info->stored_type, "F32");
  EXPECT_EQ(info->stored_bytes, 48);
  EXPECT_EQ(checkpoint->Find("nope").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(checkpoint->Find("nope").status().message(), HasSubstr("nope"));
  float scalar = 0;  // a matrix of one
  EXPECT_TRUE(checkpoint->Read("s", {0, 1}, {0, 1}, DType::kF32, &scalar, nullptr).ok());
  EXPECT_EQ(scalar, 2.0f);
  float row[3] = {};  // the last of the 4 rows that the leading dimensions fold into
  EXPECT_TRUE(checkpoint->Read("c", {3, 4}, {0, 3}, DType::kF32, row, nullptr).ok());
  EXPECT_EQ(row[2], 2.0f);
}

TEST(SafetensorsTest, RefusesWhatItCannotReadWhenItIsRead) {
  const TempFolder folder;
  const auto checkpoint = OpenWith(
      folder, SafetensorsFile(R"({"ids": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]},
        "new": {"dtype": "F3_E1M1", "shape": [8], "data_offsets": [8, 11]}})",
                              std::string(11, 'x')));
  ASSERT_NE(checkpoint, nullptr);
  float out[8];
  const absl::Status ids = checkpoint->Read("ids", {0, 1}, {0, 1}, DType::kF32, out, nullptr);
  EXPECT_THAT(ids.message(), HasSubstr("model.safetensors: tensor ids: is stored as I64"));
  const absl::Status unknown = checkpoint->Read("new", {0, 1}, {0, 8}, DType::kF32, out, nullptr);
  EXPECT_THAT(unknown.message(), HasSubstr("tensor new: is stored as F3_E1M1"));
}

TEST(SafetensorsTest, RefusesWindowsOutsideTheTensor) {
  const TempFolder folder;
  const auto checkpoint = OpenWith(
      folder,
      SafetensorsFile(R"({"t": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}})",
                      std::string(16, '\0')));
  ASSERT_NE(checkpoint, nullptr);
  float out[16];
  for (const Range bad : {Range{0, 3}, Range{-1, 1}, Range{2, 1}}) {
    EXPECT_THAT(checkpoint->Read("t", bad, {0, 2}, DType::kF32, out, nullptr).message(),
                HasSubstr("tensor t: rows"));
    EXPECT_THAT(checkpoint->Read("t", {0, 2}, bad, DType::kF32, out, nullptr).message(),
                HasSubstr("tensor t: columns"));
  }
  EXPECT_FALSE(checkpoint->Read("t", {0, 2}, {0, 2}, DType::kI32, out, nullptr).ok());
  EXPECT_TRUE(checkpoint->Read("t", {1, 1}, {0, 2}, DType::kF32, nullptr, nullptr).ok());
}

TEST(SafetensorsTest, ThreadsReadAtTheSameTime) {
  const TempFolder folder;
  std::vector<float> values(4096);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const auto checkpoint = OpenWith(
      folder,
      SafetensorsFile(R"({"t": {"dtype": "F32", "shape": [64, 64], "data_offsets": [0, 16384]}})",
                      Raw(values)));
  ASSERT_NE(checkpoint, nullptr);
  ReadProgress progress;
  std::vector<std::vector<float>> parts(4, std::vector<float>(1024));
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (int again = 0; again < 10; ++again)
        EXPECT_TRUE(checkpoint
                        ->Read("t", {16 * i, 16 * i + 16}, {0, 64}, DType::kF32,
                               parts[static_cast<size_t>(i)].data(), &progress)
                        .ok());
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(parts[i], std::vector<float>(values.begin() + static_cast<ptrdiff_t>(i) * 1024,
                                           values.begin() + static_cast<ptrdiff_t>(i + 1) * 1024));
  EXPECT_EQ(progress.file_bytes, 10 * 16384);
}

struct BadFile {
  const char* what;
  std::string bytes;
  const char* message;  // part of the error
};

// A file whose data are zeros.
std::string With(const std::string& header, size_t bytes) {
  return SafetensorsFile(header, std::string(bytes, '\0'));
}

const char kGood[] = R"({"t": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})";

std::vector<BadFile> BadHeaders() {
  const std::string good = kGood;
  const std::string eight(8, '\0');
  return {
      {"empty", "", "too few"},
      {"seven bytes", "1234567", "too few"},
      {"length beyond the limit", RawOne<uint64_t>(100'000'001) + good, "claims 100000001"},
      {"length of 2^64 - 1", RawOne<uint64_t>(~uint64_t{0}) + good, "claims"},
      {"length beyond the file", RawOne<uint64_t>(1000) + good + eight, "cut short"},
      {"empty header", With("", 0), "does not begin with {"},
      {"space first", With(" {}", 0), "does not begin with {"},
      {"no JSON", With("{\"t\": ", 0), "not JSON at byte"},
      {"two values", With("{} {}", 0), "not JSON"},
      {"not UTF-8", With("{\"\xff\": 1}", 0), "not JSON"},
      {"a list", With("[]", 0), "does not begin with {"},
      {"nested lists", With("{\"t\":" + std::string(100'000, '['), 0), "an array in a wrong place"},
      {"nested objects", With(R"({"t": {"dtype": {}}})", 0), "tensor t: the header has an object"},
      {"entry is a number", With(R"({"t": 1})", 0), "tensor t: the header has a number"},
      {"unknown key", With(R"({"t": {"color": 1}})", 0), "tensor t: the key \"color\""},
      {"dtype is a number", With(R"({"t": {"dtype": 1}})", 0), "in a wrong place (dtype)"},
      {"shape is a text", With(R"({"t": {"shape": "2"}})", 0), "in a wrong place (shape)"},
      {"negative size", With(R"({"t": {"shape": [-2]}})", 0), "a negative number"},
      {"half a size", With(R"({"t": {"shape": [2.5]}})", 0), "a fraction"},
      {"null", With(R"({"t": null})", 0), "null"},
      {"size of 2^63", With(R"({"t": {"shape": [9223372036854775808]}})", 0), "63 bits"},
      {"no shape", With(R"({"t": {"dtype": "F32", "data_offsets": [0, 8]}})", 8), "lacks"},
      {"three offsets", With(R"({"t": {"data_offsets": [0, 4, 8]}})", 8), "two data_offsets"},
      {"remark is a number", With(R"({"__metadata__": {"a": 1}})", 0), "a number in a wrong"},
      {"tensor twice", With(good.substr(0, good.size() - 1) + ", " + good.substr(1), 8),
       "the key \"t\" occurs twice"},
      {"dtype twice",
       With(R"({"t": {"dtype": "F32", "dtype": "F16", "shape": [2], "data_offsets": [0, 8]}})", 8),
       "the key \"dtype\" occurs twice"},
  };
}

std::vector<BadFile> BadTensors() {
  return {
      {"offsets backwards",
       With(R"({"t": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}})", 8),
       "tensor t: its data ends"},
      {"wrong size", With(R"({"t": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}})", 8),
       "tensor t: has 8 bytes"},
      {"overflow of elements",
       With(R"({"t": {"dtype": "F32", "shape": [4294967296, 4294967296, 4294967296],
                      "data_offsets": [0, 8]}})",
            8),
       "tensor t: has more elements"},
      {"overflow hidden by a zero",
       With(R"({"t": {"dtype": "F32", "shape": [4294967296, 4294967296, 0],
                      "data_offsets": [0, 0]}})",
            0),
       "tensor t: has more elements"},
      {"overflow of bytes",
       With(R"({"t": {"dtype": "F32", "shape": [4611686018427387904], "data_offsets": [0, 8]}})",
            8),
       "tensor t: 4611686018427387904 elements"},
      {"overlap",
       With(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                           "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}})",
            12),
       "tensor b: its data begins at byte 4, inside another"},
      {"same place",
       With(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                              "b": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})",
            8),
       "inside another"},
      {"hole",
       With(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
                        "b": {"dtype": "F32", "shape": [1], "data_offsets": [8, 12]}})",
            12),
       "tensor b: its data begins at byte 8, behind a hole"},
      {"hole at the end", With(kGood, 9), "1 bytes of data that belong to no tensor"},
      {"cut short", With(kGood, 7), "tensor t: its data ends at byte 8, but the file has 7"},
      {"three fp4", With(R"({"t": {"dtype": "F4", "shape": [3], "data_offsets": [0, 2]}})", 2),
       "no whole number of F4"},
  };
}

void ExpectRefused(const std::vector<BadFile>& files) {
  const TempFolder folder;
  folder.Write("config.json", "{}");
  for (const BadFile& bad : files) {
    folder.Write("model.safetensors", bad.bytes);
    const auto opened = Checkpoint::Open(folder.path());
    ASSERT_FALSE(opened.ok()) << bad.what;
    EXPECT_THAT(opened.status().message(), HasSubstr(bad.message)) << bad.what;
    EXPECT_THAT(opened.status().message(), HasSubstr("model.safetensors: ")) << bad.what;
  }
}

TEST(SafetensorsTest, RefusesBadHeadersNamingTheFile) { ExpectRefused(BadHeaders()); }

TEST(SafetensorsTest, RefusesBadTensorsNamingThem) { ExpectRefused(BadTensors()); }

}  // namespace
}  // namespace penstock
