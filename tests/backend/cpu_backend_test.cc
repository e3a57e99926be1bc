#include <atomic>

#include "shard/backend/cpu/thread_pool.h"
#include "shard/base/cpus.h"
#include "tests/backend/cpu_testing.h"

namespace penstock {
namespace {

TEST(CpuBackendTest, OptionsAreChecked) {
  const auto code = [](const CpuOptions& options) {
    return MakeCpuBackend(options).status().code();
  };
  EXPECT_EQ(code({.threads = -1}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.isa = "mmx"}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.compute = "fp64"}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({.threads = 1, .isa = "scalar", .compute = "bf16"}),
            absl::StatusCode::kInvalidArgument);
  const absl::Status unknown = MakeCpuBackend({.isa = "mmx"}).status();
  EXPECT_NE(unknown.message().find("'mmx'"), std::string::npos);
  EXPECT_NE(unknown.message().find("scalar"), std::string::npos) << "names what there is";
}

TEST(CpuBackendTest, InstructionSetsShareASignature) {
  for (const std::string& isa : AvailableIsaNames())
    EXPECT_EQ(MakeTestBackend(isa)->signature(), "cpu/fp32/v1");
}

TEST(CpuBackendTest, AllocatesZeroedAlignedMemory) {
  auto backend = MakeTestBackend();
  for (int64_t rows : {0, 1, 3, 3000}) {
    auto matrix = backend->Allocate(rows, 501, DType::kF32);
    ASSERT_TRUE(matrix.ok()) << matrix.status();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(matrix->view.data) % 64, 0u);
    EXPECT_EQ(matrix->view.stride, 501);
    for (int64_t i = 0; i < rows * 501; ++i) ASSERT_EQ(matrix->view.F32()[i], 0.0f);
  }
}

TEST(CpuBackendTest, AbsurdSizesAreRefused) {
  auto backend = MakeTestBackend();
  constexpr int64_t kHuge = int64_t{1} << 40;
  EXPECT_EQ(backend->Allocate(kHuge, kHuge, DType::kF32).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(backend->Allocate(kHuge, 100, DType::kF32).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(backend->Allocate(-1, 100, DType::kF32).status().code(),
            absl::StatusCode::kInvalidArgument);
  float x = 0;
  EXPECT_EQ(backend->MakeWeight({&x, kHuge, kHuge, kHuge, DType::kF32}).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(backend->MakeWeight({&x, 1, 0, 0, DType::kF32}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(backend->MakeWeight({&x, 1, 1, 1, DType::kI32}).status().code(),
            absl::StatusCode::kInvalidArgument);
  KvCacheShape shape = {.blocks = 1 << 30, .kv_heads = 1 << 20, .head_dim = 1 << 16};
  EXPECT_EQ(backend->MakeKvCache(shape).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(CpuBackendTest, KvCacheBytesAreExact) {
  auto backend = MakeTestBackend();
  const KvCacheShape shape = {.blocks = 3, .block_size = 32, .kv_heads = 2, .head_dim = 20};
  auto cache = backend->MakeKvCache(shape);
  ASSERT_TRUE(cache.ok());
  EXPECT_EQ((*cache)->bytes(), 3 * 2 * 2 * 16 * (20 + 32) * 2);
  EXPECT_EQ((*cache)->bytes(), backend->KvCacheBytes(shape));
  EXPECT_FALSE(
      backend->MakeKvCache({.blocks = 1, .block_size = 8, .kv_heads = 1, .head_dim = 2}).ok());
  EXPECT_FALSE(backend->MakeKvCache({.blocks = 1, .kv_heads = 1, .head_dim = 3}).ok());
  EXPECT_FALSE(
      backend->MakeKvCache({.blocks = 1, .kv_heads = 1, .head_dim = 2, .dtype = DType::kI32}).ok());
}

TEST(CpuBackendTest, UploadAndDownloadHonourStrides) {
  auto backend = MakeTestBackend();
  Floats matrix(3, 4, 2);
  const std::vector<float> host = RandomFloats(12, 1);
  backend->Upload(host.data(), matrix.view);
  EXPECT_EQ(matrix.Packed(), host);
  EXPECT_EQ(matrix.at(0, 4), 0.0f) << "the gap is untouched";
  std::vector<float> back(12);
  backend->Download(matrix.view, back.data());
  EXPECT_EQ(back, host);
}

TEST(CpusTest, AtLeastOneAndAtMostTheMachine) {
  EXPECT_GE(AvailableCpus(), 1);
  EXPECT_LE(AvailableCpus(), static_cast<int>(std::thread::hardware_concurrency()));
}

TEST(ThreadPoolTest, EveryPieceRunsOnceAndBeforeRunReturns) {
  for (int threads : {1, 2, 4})
    for (int spin : {0, 20}) {
      ThreadPool pool(threads, std::chrono::microseconds(spin));
      std::vector<int> runs(9);                                      // by piece
      std::vector<int64_t> by_worker(static_cast<size_t>(threads));  // each worker writes its own
      for (int i = 0; i < 300; ++i) {
        pool.Run(9, [&](int64_t piece, int worker) {
          ++runs[static_cast<size_t>(piece)];
          ++by_worker[static_cast<size_t>(worker)];
        });
        for (int count : runs) ASSERT_EQ(count, i + 1);
        if (i % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));  // they sleep
      }
      int64_t total = 0;
      for (int64_t count : by_worker) total += count;
      EXPECT_EQ(total, 2700);
    }
}

TEST(ThreadPoolTest, WorkersShareTheWork) {
  ThreadPool pool(2, std::chrono::microseconds(0));
  std::atomic<int> inside{0};
  pool.Run(2, [&](int64_t, int) {  // returns only when both pieces run at the same time
    ++inside;
    while (inside.load() < 2) std::this_thread::yield();
  });
  EXPECT_EQ(inside.load(), 2);
}

TEST(ThreadPoolTest, RangesCoverEverythingOnce) {
  ThreadPool pool(3, std::chrono::microseconds(0));
  for (int64_t items : {0, 1, 2, 3, 7, 100})
    for (int64_t grain : {1, 10, 1000}) {
      std::vector<std::atomic<int>> hits(static_cast<size_t>(items));
      pool.ForRanges(items, grain, [&](Range range, int) {
        for (int64_t i = range.begin; i < range.end; ++i) ++hits[static_cast<size_t>(i)];
      });
      for (const auto& hit : hits) EXPECT_EQ(hit.load(), 1);
    }
}

}  // namespace
}  // namespace penstock
