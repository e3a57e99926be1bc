#include "shard/model/shard_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace penstock {
namespace {

using testing::HasSubstr;

// SmolLM2-135M: the head weighs eight layers.
ModelSpec SmolLm() {
  ModelSpec spec;
  spec.layers = 30;
  spec.hidden = 576;
  spec.intermediate = 1536;
  spec.heads = 9;
  spec.kv_heads = 3;
  spec.head_dim = 64;
  spec.vocab = 49152;
  spec.tied_embeddings = true;
  return spec;
}

ShardPlan Plan(const ModelSpec& spec, int tensor, int pipeline, std::vector<int> layers = {}) {
  ShardPlanOptions options{.tensor = tensor, .pipeline = pipeline, .layers = std::move(layers)};
  const auto plan = ShardPlan::Create(spec, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

std::string ErrorOf(const ModelSpec& spec, int tensor, int pipeline, std::vector<int> layers = {}) {
  ShardPlanOptions options{.tensor = tensor, .pipeline = pipeline, .layers = std::move(layers)};
  const auto plan = ShardPlan::Create(spec, options);
  EXPECT_FALSE(plan.ok());
  return std::string(plan.status().message());
}

std::vector<int64_t> Stages(const ShardPlan& plan) {
  std::vector<int64_t> out;
  for (int stage = 0; stage < plan.pipeline(); ++stage) out.push_back(plan.Layers(stage).size());
  return out;
}

TEST(ShardPlan, HeadsSplitUnevenlyEarlierRanksGetMore) {
  const ShardPlan two = Plan(SmolLm(), 2, 1);
  EXPECT_EQ(two.Heads(0), (Range{0, 5}));
  EXPECT_EQ(two.Heads(1), (Range{5, 9}));
  EXPECT_EQ(two.KvHeads(0), (Range{0, 2}));  // heads 3 and 4 and head 5 read KV head 1
  EXPECT_EQ(two.KvHeads(1), (Range{1, 3}));
  const ShardPlan four = Plan(SmolLm(), 4, 1);
  EXPECT_EQ(four.Heads(0), (Range{0, 3}));
  EXPECT_EQ(four.Heads(3), (Range{7, 9}));
  EXPECT_EQ(four.KvHeads(1), (Range{1, 2}));
  EXPECT_EQ(four.KvHeads(2), (Range{1, 3}));
}

TEST(ShardPlan, RanksOfStages) {
  const ShardPlan plan = Plan(SmolLm(), 2, 3);
  EXPECT_EQ(plan.ranks(), 6);
  EXPECT_EQ(plan.stage(3), 1);
  EXPECT_EQ(plan.tensor_rank(3), 1);
  EXPECT_EQ(plan.driver(), 4);
  EXPECT_TRUE(plan.first_stage(1) && plan.last_stage(5) && !plan.last_stage(3));
}

// Every degree that is accepted cuts every dimension completely, without empty parts.
TEST(ShardPlan, PartsCoverEverything) {
  ModelSpec spec = SmolLm();
  for (const int32_t vocab : {49152, 300, 97, 45}) {
    for (const int32_t width : {1536, 100, 56, 33, 9}) {
      spec.vocab = vocab;
      spec.intermediate = width;
      for (int tensor = 1; tensor <= 9; ++tensor) {
        const auto made = ShardPlan::Create(spec, {.tensor = tensor});
        ASSERT_TRUE(made.ok()) << made.status();
        const ShardPlan& plan = *made;
        int64_t heads = 0, intermediate = 0, ids = 0;
        for (int rank = 0; rank < tensor; ++rank) {
          EXPECT_EQ(plan.Heads(rank).begin, heads);
          EXPECT_EQ(plan.Intermediate(rank).begin, intermediate);
          EXPECT_EQ(plan.Vocab(rank).begin, ids);
          heads = plan.Heads(rank).end;
          intermediate = plan.Intermediate(rank).end;
          ids = plan.Vocab(rank).end;
          EXPECT_GT(plan.Heads(rank).size(), 0);
          EXPECT_GT(plan.Intermediate(rank).size(), 0);
          EXPECT_GT(plan.Vocab(rank).size(), 0);
          EXPECT_LE(plan.Vocab(rank).size(), plan.vocab_part());
          EXPECT_LE(plan.KvHeads(rank).begin, plan.Heads(rank).begin / spec.group());
          EXPECT_GT(plan.KvHeads(rank).end, (plan.Heads(rank).end - 1) / spec.group());
        }
        EXPECT_EQ(heads, spec.heads);
        EXPECT_EQ(intermediate, width);
        EXPECT_EQ(ids, vocab);
      }
    }
  }
}

TEST(ShardPlan, WidthsComeInUnitsOf32WherePossible) {
  ModelSpec spec = SmolLm();
  spec.intermediate = 112;
  const ShardPlan plan = Plan(spec, 3, 1);
  EXPECT_EQ(plan.Intermediate(0), (Range{0, 64}));
  EXPECT_EQ(plan.Intermediate(1), (Range{64, 96}));
  EXPECT_EQ(plan.Intermediate(2), (Range{96, 112}));
  EXPECT_EQ(plan.vocab_part(), 16384);
  spec.vocab = 97;
  EXPECT_EQ(Plan(spec, 2, 1).vocab_part(), 64);
}

// TinyLlama-1.1B: the head weighs one and a half layers.
ModelSpec TinyLlama() {
  ModelSpec spec;
  spec.layers = 22;
  spec.hidden = 2048;
  spec.intermediate = 5632;
  spec.heads = 32;
  spec.kv_heads = 4;
  spec.head_dim = 64;
  spec.vocab = 32000;
  return spec;
}

// The slowest stage over the mean, in the phase where that is worse. A head as heavy as `head`
// layers takes its time when decoding only.
double WorseImbalance(const std::vector<int64_t>& stages, double head) {
  double layers = 0, slowest = 0, slowest_with_head = 0;
  for (size_t i = 0; i < stages.size(); ++i) {
    const auto here = static_cast<double>(stages[i]);
    layers += here;
    slowest = std::max(slowest, here);
    slowest_with_head = std::max(slowest_with_head, here + (i + 1 == stages.size() ? head : 0));
  }
  const auto count = static_cast<double>(stages.size());
  return std::max(slowest / layers, slowest_with_head / (layers + head)) * count;
}

TEST(ShardPlan, OneSplitServesBothPhases) {
  // For decode alone 19 + 11 (+ 8) would be best, for prefill alone 15 + 15.
  EXPECT_EQ(Stages(Plan(SmolLm(), 1, 2)), (std::vector<int64_t>{17, 13}));
  // Decode alone would like 12 + 10 (+ 1.5), which is worse for prefill than this is for decode.
  EXPECT_EQ(Stages(Plan(TinyLlama(), 1, 2)), (std::vector<int64_t>{11, 11}));
  EXPECT_LE(WorseImbalance({11, 11}, 1.5), 1.10);
  EXPECT_EQ(Stages(Plan(SmolLm(), 1, 1)), (std::vector<int64_t>{30}));
  EXPECT_EQ(Stages(Plan(SmolLm(), 1, 4)), (std::vector<int64_t>{9, 9, 9, 3}));
  // A stage for every layer.
  EXPECT_EQ(Stages(Plan(SmolLm(), 1, 30)), std::vector<int64_t>(30, 1));
}

TEST(ShardPlan, AnEncoderHasNoHeadWorthCounting) {
  ModelSpec spec = SmolLm();
  spec.encoder.emplace();
  EXPECT_EQ(Stages(Plan(spec, 1, 2)), (std::vector<int64_t>{15, 15}));
}

// Against every split there is, for small numbers.
TEST(ShardPlan, NoSplitIsBetter) {
  ModelSpec spec = SmolLm();
  for (const int32_t vocab : {1000, 20000, 49152}) {
    spec.vocab = vocab;
    const double head = static_cast<double>(vocab) / (2 * 12 * 64 + 3 * 1536);
    for (int layers = 3; layers <= 12; ++layers) {
      spec.layers = layers;
      double best = 1e300;
      for (int64_t a = 1; a <= layers - 2; ++a)
        for (int64_t b = 1; b <= layers - a - 1; ++b)
          best = std::min(best, WorseImbalance({a, b, layers - a - b}, head));
      EXPECT_DOUBLE_EQ(WorseImbalance(Stages(Plan(spec, 1, 3)), head), best) << layers << " layers";
    }
  }
}

TEST(ShardPlan, ExplicitLayers) {
  EXPECT_EQ(Stages(Plan(SmolLm(), 1, 3, {1, 28, 1})), (std::vector<int64_t>{1, 28, 1}));
  EXPECT_THAT(ErrorOf(SmolLm(), 1, 3, {1, 28, 2}), HasSubstr("add up to 30"));
  EXPECT_THAT(ErrorOf(SmolLm(), 1, 3, {15, 15}), HasSubstr("3 numbers"));
  EXPECT_THAT(ErrorOf(SmolLm(), 1, 3, {0, 15, 15}), HasSubstr("at least 1"));
  EXPECT_THAT(ErrorOf(SmolLm(), 1, 2, {-1, 31}), HasSubstr("at least 1"));
}

TEST(ShardPlan, RefusesNamingWhatIsPossible) {
  EXPECT_THAT(ErrorOf(SmolLm(), 10, 1), HasSubstr("possible: 1-9"));
  EXPECT_THAT(ErrorOf(SmolLm(), 0, 1), HasSubstr("possible: 1-9"));
  EXPECT_THAT(ErrorOf(SmolLm(), 1, 31), HasSubstr("possible: 1-30"));
  EXPECT_THAT(ErrorOf(SmolLm(), 1, -1), HasSubstr("possible: 1-30"));
  ModelSpec tiny = SmolLm();
  tiny.vocab = 10;  // 8 ranks of 2 ids would leave the last ones without any
  EXPECT_THAT(ErrorOf(tiny, 8, 1), HasSubstr("possible: 1-5"));
}

}  // namespace
}  // namespace penstock
