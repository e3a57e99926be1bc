#include <cmath>
#include <cstring>
#include <functional>

#include "gmock/gmock.h"
#include "tests/backend/cpu_testing.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;

AttentionShape Shape(int32_t heads, int32_t head_dim) {
  AttentionShape shape;
  shape.heads = shape.kv_heads = heads;
  shape.head_dim = head_dim;
  shape.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  return shape;
}

// Sequences back to back, and their queries, keys and values.
struct Packed {
  Packed(const AttentionShape& of, const std::vector<int32_t>& lengths, uint32_t seed)
      : shape(of),
        begin(Offsets(lengths)),
        qkv(Floats::Random(begin.data[lengths.size()], (of.heads + 2 * of.kv_heads) * of.head_dim,
                           seed)),
        out(qkv.view.rows, of.heads * of.head_dim, 5) {
    for (float& x : qkv.data) x *= 3;
    batch.seq_begin = begin.view;
  }
  static Ints Offsets(const std::vector<int32_t>& lengths) {
    std::vector<int32_t> offsets{0};
    for (const int32_t length : lengths) offsets.push_back(offsets.back() + length);
    return Ints(offsets);
  }
  std::vector<float> Run(Backend& backend) {
    backend.encoder().Attention(qkv.view, batch, shape, out.view);
    EXPECT_TRUE(backend.Sync().ok()) << backend.Sync();
    return out.Packed();
  }

  AttentionShape shape;
  Ints begin;
  Floats qkv, out;
  DeviceBatch batch;
};

// Softmax attention of every row to all of its sequence, in double precision.
std::vector<double> Reference(Packed& packed) {
  const AttentionShape& shape = packed.shape;
  const int64_t dim = shape.head_dim;
  std::vector<double> out;
  const int32_t* begin = packed.begin.view.I32();
  for (int64_t s = 0; s + 1 < packed.begin.view.cols; ++s)
    for (int64_t row = begin[s]; row < begin[s + 1]; ++row)
      for (int32_t head = 0; head < shape.heads; ++head) {
        const int64_t kv = shape.kv_of(head);
        std::vector<double> mixed(static_cast<size_t>(dim));
        double total = 0;
        for (int64_t other = begin[s]; other < begin[s + 1]; ++other) {
          double score = 0;
          for (int64_t d = 0; d < dim; ++d)
            score += double{packed.qkv.at(row, head * dim + d)} *
                     packed.qkv.at(other, (shape.heads + kv) * dim + d);
          const double weight = std::exp(score * double{shape.scale});
          total += weight;
          for (int64_t d = 0; d < dim; ++d)
            mixed[static_cast<size_t>(d)] +=
                weight * packed.qkv.at(other, (shape.heads + shape.kv_heads + kv) * dim + d);
        }
        for (const double value : mixed) out.push_back(value / total);
      }
  return out;
}

TEST(SelfAttentionTest, EqualsReferenceAcrossHeadSizesAndLengths) {
  for (const std::string& isa : AvailableIsaNames())
    for (const int32_t head_dim : {1, 15, 32, 64, 80}) {
      auto backend = MakeTestBackend(isa);
      Packed packed(Shape(2, head_dim), {1, 17, 130, 8, 127, 128}, 1);
      EXPECT_LT(LargestError(packed.Run(*backend), Reference(packed)), 1e-5)
          << isa << " " << head_dim;
    }
}

TEST(SelfAttentionTest, LongSequencesMergeTheirChunks) {
  auto backend = MakeTestBackend("auto", 2);
  Packed packed(Shape(1, 32), {300, 3, 513}, 2);
  EXPECT_LT(LargestError(packed.Run(*backend), Reference(packed)), 1e-5);
}

TEST(SelfAttentionTest, QueryHeadsMayShareKeysUnevenly) {
  auto backend = MakeTestBackend();
  AttentionShape shape = Shape(5, 16);
  shape.head_begin = 2;  // heads 2..6 of groups of 3: KV heads 0, 1 and 2
  shape.group = 3;
  shape.kv_heads = 3;
  Packed packed(shape, {20, 33}, 3);
  EXPECT_LT(LargestError(packed.Run(*backend), Reference(packed)), 1e-5);
}

TEST(SelfAttentionTest, BitsDependOnTheSequenceAlone) {
  const std::vector<int32_t> lengths = {140, 1, 64, 300, 9};
  auto backend = MakeTestBackend("auto", 1);
  Packed together(Shape(3, 20), lengths, 4);
  const std::vector<float> all = together.Run(*backend);
  for (size_t s = 0; s < lengths.size(); ++s) {
    Packed alone(Shape(3, 20), {lengths[s]}, 0);
    const int32_t begin = together.begin.data[s];
    std::copy_n(together.qkv.data.begin() + begin * together.qkv.view.stride,
                lengths[s] * together.qkv.view.stride, alone.qkv.data.begin());
    const std::vector<float> mine = alone.Run(*backend);
    EXPECT_EQ(std::memcmp(mine.data(), all.data() + begin * 60, mine.size() * sizeof(float)), 0)
        << "sequence " << s;
  }
}

TEST(SelfAttentionTest, BitsDependNeitherOnThreadsNorOnTheInstructionSet) {
  std::vector<std::vector<float>> results;
  for (const std::string& isa : AvailableIsaNames())
    for (const int threads : {1, 2, 5}) {
      auto backend = MakeTestBackend(isa, threads);
      results.push_back(Packed(Shape(1, 24), {400, 5, 131}, 5).Run(*backend));
    }
  for (const auto& result : results)
    EXPECT_EQ(std::memcmp(result.data(), results[0].data(), result.size() * sizeof(float)), 0);
}

TEST(SelfAttentionTest, OperandsThatDoNotFitAreNamed) {
  const auto error = [](const std::function<void(Packed&)>& spoil) {
    auto backend = MakeTestBackend();
    Packed packed(Shape(2, 16), {4, 5}, 6);
    spoil(packed);
    backend->encoder().Attention(packed.qkv.view, packed.batch, packed.shape, packed.out.view);
    return std::string(backend->Sync().message());
  };
  EXPECT_THAT(error([](Packed& p) { p.out.view.cols = 31; }), HasSubstr("out must be"));
  EXPECT_THAT(error([](Packed& p) { p.qkv.view.cols = 95; }), HasSubstr("qkv must be"));
  EXPECT_THAT(error([](Packed& p) { p.begin.data[1] = 11; }), HasSubstr("seq_begin"));
  EXPECT_THAT(error([](Packed& p) { p.shape.window = 4; }), HasSubstr("window 4"));
  EXPECT_THAT(error([](Packed& p) { p.shape.kv_heads = 1; }), HasSubstr("1 KV heads"));
}

}  // namespace
}  // namespace penstock
