#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "shard/checkpoint/file.h"
#include "shard/checkpoint/stored_tensor.h"
#include "tests/checkpoint/files.h"

namespace penstock {
namespace {

// A matrix of fp16 whose element (r, c) has the bits 31 r + c.
class ReadWindowTest : public testing::Test {
 protected:
  void Make(int64_t rows, int64_t cols) {
    std::vector<uint16_t> bits;
    for (int64_t i = 0; i < rows * cols; ++i) bits.push_back(BitsAt(i / cols, i % cols));
    auto opened = File::Open(folder_.Write("data", "head" + Raw(bits)));
    ASSERT_TRUE(opened.ok()) << opened.status();
    file_ = *std::move(opened);
    tensor_.info = {"t", {rows, cols}, "F16", 2 * rows * cols};
    tensor_.type = &SafetensorsType("F16");
    tensor_.file = file_.get();
    tensor_.offset = 4;
  }

  static uint16_t BitsAt(int64_t row, int64_t col) {
    return static_cast<uint16_t>((31 * row + col) % 0x7c00);
  }

  // Reads the window as fp16 and checks every element.
  void Check(Range rows, Range cols) {
    std::vector<uint16_t> out(static_cast<size_t>(rows.size() * cols.size()));
    const absl::Status status =
        ReadWindow(tensor_, rows, cols, DType::kF16, out.data(), &progress_);
    ASSERT_TRUE(status.ok()) << status;
    size_t wrong = 0, i = 0;
    for (int64_t row = rows.begin; row < rows.end; ++row)
      for (int64_t col = cols.begin; col < cols.end; ++col, ++i)
        wrong += out[i] != BitsAt(row, col);
    EXPECT_EQ(wrong, 0u);
  }

  TempFolder folder_;
  std::unique_ptr<File> file_;
  StoredTensor tensor_;
  ReadProgress progress_;
};

TEST_F(ReadWindowTest, RowsReadOnlyTheirBytes) {
  Make(1000, 700);
  Check({100, 900}, {0, 700});
  EXPECT_EQ(progress_.file_bytes, 800 * 1400);
  EXPECT_EQ(progress_.wanted_bytes, 800 * 1400);
}

TEST_F(ReadWindowTest, ColumnsOfShortRowsReadWholeRows) {
  Make(1000, 700);
  Check({0, 1000}, {350, 700});
  EXPECT_EQ(progress_.file_bytes, 1000 * 1400);
  EXPECT_EQ(progress_.wanted_bytes, 1000 * 700);
}

// 64 KiB of a row of 528 KiB: less than an eighth and worth a seek.
TEST_F(ReadWindowTest, FewColumnsOfLongRowsReadOnlyThose) {
  Make(5, 264 << 10);
  Check({1, 5}, {100'000, 100'000 + (32 << 10)});
  EXPECT_EQ(progress_.file_bytes, 4 * (64 << 10));
  EXPECT_EQ(progress_.wanted_bytes, progress_.file_bytes);
  Check({1, 2}, {0, 16 << 10});  // 32 KiB is not
  EXPECT_EQ(progress_.file_bytes, 4 * (64 << 10) + (528 << 10));
}

TEST_F(ReadWindowTest, RowsLargerThanTheBufferComeInPieces) {
  Make(2, 3'000'000);
  Check({0, 2}, {1, 2'999'999});
  EXPECT_EQ(progress_.file_bytes, 2 * 2 * 2'999'998);
}

TEST_F(ReadWindowTest, AFileThatBecameShorterIsAnError) {
  Make(100, 100);
  folder_.Write("data", "head");  // the same file, now without its data
  std::vector<uint16_t> out(10'000);
  const absl::Status status =
      ReadWindow(tensor_, {0, 100}, {0, 100}, DType::kF16, out.data(), nullptr);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("/data: became shorter"), absl::string_view::npos) << status;
}

}  // namespace
}  // namespace penstock
