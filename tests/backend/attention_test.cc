#include "tests/backend/attention_testing.h"

namespace penstock {
namespace {

AttentionModel Model(int heads, int kv_heads, int head_begin, int group, int head_dim,
                     DType dtype = DType::kF32, int window = 0, int rotary_dim = 0) {
  AttentionModel model;
  model.shape = {.heads = heads,
                 .kv_heads = kv_heads,
                 .head_begin = head_begin,
                 .group = group,
                 .head_dim = head_dim,
                 .window = window,
                 .scale = 1.0f / std::sqrt(static_cast<float>(head_dim))};
  model.shape.scale *= 3;  // a peaked softmax
  model.dtype = dtype;
  model.rotary_dim = rotary_dim;
  return model;
}

float RoundTo(DType dtype, double x) {
  const float f = static_cast<float>(x);
  if (dtype == DType::kF16) return HalfToFloat(FloatToHalf(f));
  return dtype == DType::kBF16 ? Bf16ToFloat(FloatToBf16(f)) : f;
}

// One sequence in float64, keys and values rounded to the cache's dtype.
std::vector<double> Reference(const AttentionModel& model, const Sequence& sequence) {
  const AttentionShape& shape = model.shape;
  const int64_t cols = model.qkv_cols(), dim = shape.head_dim, half = model.rotary() / 2;
  const int64_t tokens = static_cast<int64_t>(sequence.size()) / cols;
  std::vector<double> rows(sequence.begin(), sequence.end());
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t h = 0; h < shape.heads + shape.kv_heads; ++h)
      for (int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(t) *
                             std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(half));
        double& a = rows[static_cast<size_t>(t * cols + h * dim + i)];
        double& b = rows[static_cast<size_t>(t * cols + h * dim + half + i)];
        const double x = a * std::cos(angle) - b * std::sin(angle);
        b = b * std::cos(angle) + a * std::sin(angle);
        a = x;
      }
  const auto at = [&](int64_t t, int64_t head, int64_t d) {
    return rows[static_cast<size_t>(t * cols + head * dim + d)];
  };
  std::vector<double> out;
  for (int64_t t = 0; t < tokens; ++t)
    for (int32_t h = 0; h < shape.heads; ++h) {
      const int64_t key = shape.heads + shape.kv_of(h), value = key + shape.kv_heads;
      const int64_t first = shape.window > 0 ? std::max<int64_t>(0, t - shape.window + 1) : 0;
      std::vector<double> mixed(static_cast<size_t>(dim));
      double sum = 0;
      for (int64_t s = first; s <= t; ++s) {
        double score = 0;
        for (int64_t d = 0; d < dim; ++d)
          score += at(t, h, d) * double{RoundTo(model.dtype, at(s, key, d))};
        const double weight = std::exp(score * double{shape.scale});
        sum += weight;
        for (int64_t d = 0; d < dim; ++d)
          mixed[static_cast<size_t>(d)] += weight * double{RoundTo(model.dtype, at(s, value, d))};
      }
      for (double m : mixed) out.push_back(m / sum);
    }
  return out;
}

double Tolerance(DType dtype) {  // keys that round to the other neighbour
  return dtype == DType::kF32 ? 1e-5 : dtype == DType::kF16 ? 2e-3 : 2e-2;
}

const AttentionModel kModels[] = {
    Model(9, 3, 0, 3, 64, DType::kF16),          // SmolLM
    Model(4, 2, 5, 3, 64, DType::kF16),          // its heads 5..8 of 9: groups of 1 and 3
    Model(5, 2, 0, 3, 64, DType::kBF16),         // heads 0..4: groups of 3 and 2
    Model(2, 2, 5, 3, 16),                       // heads 5 and 6: one of each group
    Model(1, 1, 0, 1, 80, DType::kBF16, 0, 32),  // partial rotation
    Model(14, 2, 0, 7, 64),                      // Qwen2
    Model(20, 2, 0, 10, 16, DType::kF16),        // groups wider than a tile of rows
    Model(4, 4, 0, 1, 128, DType::kF16, 40),     // windows
    Model(6, 2, 0, 3, 20, DType::kF32, 3),       // narrower than a tile of rows
    Model(2, 1, 0, 2, 6, DType::kF32, 130),      // an odd dimension, just over a chunk
};

TEST(AttentionTest, EqualsFloat64Reference) {
  for (const std::string& isa : AvailableIsaNames()) {
    auto backend = MakeTestBackend(isa, 2);
    for (const AttentionModel& model : kModels) {
      const auto sequences = RandomSequences(model, {150, 33, 1}, 21);
      const auto out = RunSequences(*backend, model, sequences, {});
      for (size_t s = 0; s < sequences.size(); ++s)
        EXPECT_LT(LargestError(out[s], Reference(model, sequences[s])), Tolerance(model.dtype))
            << isa << " heads " << model.shape.heads << " dim " << model.shape.head_dim << " "
            << Name(model.dtype) << " sequence " << s;
    }
  }
}

TEST(AttentionTest, LongContextsOverManyChunks) {
  auto backend = MakeTestBackend("auto", 2);
  for (int window : {0, 300}) {
    const AttentionModel model = Model(3, 1, 0, 3, 16, DType::kF32, window);
    const auto sequences = RandomSequences(model, {700}, 22);
    const auto out = RunSequences(*backend, model, sequences, {.chunk = 256});
    EXPECT_LT(LargestError(out[0], Reference(model, sequences[0])), 1e-5);
  }
}

TEST(AttentionTest, IsasGiveTheSameBits) {
  for (const AttentionModel& model : kModels) {
    const auto sequences = RandomSequences(model, {140, 37}, 23);
    auto scalar = MakeTestBackend("scalar");
    const auto expected = RunSequences(*scalar, model, sequences, {.chunk = 60});
    for (const std::string& isa : AvailableIsaNames()) {
      auto backend = MakeTestBackend(isa);
      EXPECT_EQ(RunSequences(*backend, model, sequences, {.chunk = 60}), expected)
          << isa << " heads " << model.shape.heads << " dim " << model.shape.head_dim;
    }
  }
}

// Invariant 3: chunking, batch-mates, block layout, block size and threads change no bit.
TEST(AttentionTest, ScheduleAndThreadsDoNotChangeABit) {
  const std::vector<AttentionSchedule> schedules = {
      {.chunk = 1},
      {.chunk = 7, .block_seed = 5},
      {.chunk = 128, .block_size = 32},
      {.chunk = 100, .sequences_per_step = 1, .block_seed = 9},
      {.chunk = 33, .sequences_per_step = 2, .block_seed = 3, .block_size = 64}};
  for (const AttentionModel& model : kModels) {
    const auto sequences = RandomSequences(model, {290, 15, 131}, 24);
    const auto expected = RunSequences(*MakeTestBackend(), model, sequences, {});
    for (int threads : {1, 2, 3, 7}) {
      auto backend = MakeTestBackend("auto", threads);
      for (const AttentionSchedule& schedule : schedules)
        EXPECT_EQ(RunSequences(*backend, model, sequences, schedule), expected)
            << "threads " << threads << " chunk " << schedule.chunk << " heads "
            << model.shape.heads << " dim " << model.shape.head_dim;
    }
  }
}

// A rank that holds some of the heads computes what the rank that holds all of them does.
TEST(AttentionTest, UnevenHeadSplitsGiveTheSameBits) {
  const AttentionModel whole = Model(9, 3, 0, 3, 16, DType::kF16);
  const auto sequence = RandomSequences(whole, {200}, 25)[0];
  const auto expected = RunSequences(*MakeTestBackend(), whole, {sequence}, {})[0];
  const std::vector<std::vector<int>> splits = {{5, 4}, {3, 2, 2, 2}, {1, 8}, {2, 5, 2}};
  for (const std::vector<int>& split : splits) {
    int begin = 0;
    for (int heads : split) {
      const int kv_begin = begin / 3, kv_heads = (begin + heads - 1) / 3 - kv_begin + 1;
      const AttentionModel part = Model(heads, kv_heads, begin, 3, 16, DType::kF16);
      Sequence mine;
      for (int t = 0; t < 200; ++t) {
        const auto copy = [&](int from, int count) {
          const auto at = sequence.begin() + t * whole.qkv_cols() + from * 16;
          mine.insert(mine.end(), at, at + count * 16);
        };
        copy(begin, heads);
        copy(9 + kv_begin, kv_heads);
        copy(12 + kv_begin, kv_heads);
      }
      const auto out = RunSequences(*MakeTestBackend("auto", 2), part, {mine}, {.chunk = 50})[0];
      for (int t = 0; t < 200; ++t)
        for (int i = 0; i < heads * 16; ++i)
          ASSERT_EQ(out[static_cast<size_t>(t * heads * 16 + i)],
                    expected[static_cast<size_t>((t * 9 + begin) * 16 + i)])
              << "heads " << begin << " to " << begin + heads << " token " << t;
      begin += heads;
    }
  }
}

// What lies in a block beyond the sequence (an earlier owner's numbers) must not matter.
TEST(AttentionTest, StaleNumbersInABlockDoNotMatter) {
  const AttentionModel model = Model(4, 2, 0, 2, 16, DType::kF32);
  auto backend = MakeTestBackend();
  auto cache =
      *backend->MakeKvCache({.blocks = 2, .kv_heads = 2, .head_dim = 16, .dtype = DType::kF32});
  RopeTables rope(64, 16);
  std::vector<std::vector<float>> results;
  const std::vector<float> clean = RandomFloats(20 * model.qkv_cols(), 26);
  for (float stale : {0.0f, std::nanf(""), 1e30f}) {
    std::vector<float> dirt(static_cast<size_t>(32 * model.qkv_cols()), stale);
    TestBatch filling, batch;
    filling.Add(0, 32, {1, 0}, 16);
    backend->attention().RopeAndCache({dirt.data(), 32, model.qkv_cols(), model.qkv_cols()},
                                      filling.view(), rope.view(), model.shape, *cache);
    batch.Add(0, 20, {1, 0}, 16);
    std::vector<float> qkv = clean;
    const Matrix rows = {qkv.data(), 20, model.qkv_cols(), model.qkv_cols()};
    Floats out(20, model.q_cols());
    backend->attention().RopeAndCache(rows, batch.view(), rope.view(), model.shape, *cache);
    backend->attention().Attention(rows.Cols(0, model.q_cols()), *cache, batch.view(), model.shape,
                                   out.view);
    ASSERT_TRUE(backend->Sync().ok());
    results.push_back(out.data);
  }
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
}

class BadBatchTest : public testing::Test {
 protected:
  void SetUp() override {
    batch_.Add(0, 20, {1, 0}, 16);
    cache_ =
        *backend_->MakeKvCache({.blocks = 2, .kv_heads = 2, .head_dim = 16, .dtype = DType::kF32});
  }
  absl::Status Rope() {
    backend_->attention().RopeAndCache(qkv_.view, batch_.view(), rope_.view(), model_.shape,
                                       *cache_);
    return backend_->Sync();
  }
  absl::Status Attend() {
    backend_->attention().Attention(qkv_.view.Cols(0, model_.q_cols()), *cache_, batch_.view(),
                                    model_.shape, out_.view);
    return backend_->Sync();
  }
  AttentionModel model_ = Model(4, 2, 0, 2, 16, DType::kF32);
  std::unique_ptr<Backend> backend_ = MakeTestBackend();
  std::unique_ptr<KvCache> cache_;
  RopeTables rope_{32, 16};
  Floats qkv_ = Floats::Random(20, model_.qkv_cols(), 27);
  Floats out_{20, model_.q_cols()};
  TestBatch batch_;
};

TEST_F(BadBatchTest, GoodBatchPasses) {
  EXPECT_TRUE(Rope().ok());
  EXPECT_TRUE(Attend().ok());
}
TEST_F(BadBatchTest, SlotBeyondTheCache) {
  batch_.slots[3] = 32;
  EXPECT_EQ(Rope().code(), absl::StatusCode::kInvalidArgument);
}
TEST_F(BadBatchTest, NegativeSlot) {
  batch_.slots[3] = -1;
  EXPECT_EQ(Rope().code(), absl::StatusCode::kInvalidArgument);
}
TEST_F(BadBatchTest, PositionBeyondTheRopeTable) {
  batch_.positions[3] = 32;
  EXPECT_EQ(Rope().code(), absl::StatusCode::kInvalidArgument);
}
TEST_F(BadBatchTest, PositionBeyondTheContext) {
  batch_.positions[3] = 20;
  EXPECT_EQ(Attend().code(), absl::StatusCode::kInvalidArgument);
}
TEST_F(BadBatchTest, BlockBeyondTheCache) {
  batch_.blocks[1] = 2;
  const absl::Status status = Attend();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("block 2 of 2"), std::string::npos) << status;
}
TEST_F(BadBatchTest, TooFewBlocks) {
  batch_.context_lens[0] = 33;
  EXPECT_EQ(Attend().code(), absl::StatusCode::kInvalidArgument);
}
TEST_F(BadBatchTest, SequencesNotAscending) {
  batch_.seq_begin[1] = 21;
  EXPECT_EQ(Attend().code(), absl::StatusCode::kInvalidArgument);
}
TEST_F(BadBatchTest, ShapeOfAnotherCache) {
  model_.shape.head_begin = 3;  // heads 3..6: three groups
  EXPECT_EQ(Attend().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace penstock
