#include <map>

#include "shard/backend/cpu/draw.h"
#include "tests/backend/cpu_testing.h"

namespace penstock {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

class SamplerTest : public testing::Test {
 protected:
  // Samples `count` positions of the same logits from slot 0.
  std::vector<SampledToken> Sample(const std::vector<float>& logits, const SamplingParams& params,
                                   int count = 1, bool mask_stops = false,
                                   const std::vector<int32_t>& prompt = {},
                                   const std::vector<int32_t>& generated = {}) {
    Assign(0, params, prompt, generated);
    std::vector<SampledToken> all;
    for (int i = 0; i < count; ++i) {
      const SampleRow row = {.row = 0, .slot = 0, .position = i, .mask_stops = mask_stops};
      all.push_back(SampleRows(logits, {row})[0]);
    }
    return all;
  }
  void Assign(int32_t slot, const SamplingParams& params, const std::vector<int32_t>& prompt = {},
              const std::vector<int32_t>& generated = {}, int32_t sample_index = 0) {
    const SlotAssignment assignment = {slot, params, sample_index, prompt, generated};
    backend_->sampling().Assign({&assignment, 1});
  }
  std::vector<SampledToken> SampleRows(std::vector<float> logits,
                                       const std::vector<SampleRow>& rows) {
    const int64_t vocab = static_cast<int64_t>(logits.size() / rows.size());
    std::vector<SampledToken> out;
    backend_->sampling().Sample({logits.data(), static_cast<int64_t>(rows.size()), vocab, vocab},
                                static_cast<int32_t>(vocab), rows, &out);
    return out;
  }
  std::map<int32_t, int> Histogram(const std::vector<float>& logits, const SamplingParams& params,
                                   int count) {
    std::map<int32_t, int> histogram;
    for (const SampledToken& s : Sample(logits, params, count)) ++histogram[s.token];
    EXPECT_TRUE(backend_->Sync().ok()) << backend_->Sync();
    return histogram;
  }
  std::unique_ptr<Backend> backend_ = MakeTestBackend("auto", 2);
};

SamplingParams Greedy() {
  SamplingParams params;
  params.temperature = 0;
  return params;
}

TEST_F(SamplerTest, GreedyTakesTheLowestIdAmongEquals) {
  for (int vocab : {1, 2, 15, 16, 17, 100, 1000}) {
    std::vector<float> logits = RandomFloats(vocab, 31);
    EXPECT_EQ(Sample(logits, Greedy())[0].token,
              std::max_element(logits.begin(), logits.end()) - logits.begin());
    logits[static_cast<size_t>(vocab - 1)] = 2;
    logits[static_cast<size_t>(vocab / 2)] = 2;
    EXPECT_EQ(Sample(logits, Greedy())[0].token, vocab / 2);
  }
}

TEST_F(SamplerTest, NotANumberAndInfinityAreNeverDrawn) {
  std::vector<float> logits(40, -5.0f);
  logits[3] = NAN;
  logits[4] = kInf;
  logits[5] = -kInf;
  logits[20] = -4;
  EXPECT_EQ(Sample(logits, Greedy())[0].token, 20);
  SamplingParams params;
  params.temperature = 100;
  for (int top_k : {0, 39})
    for (float top_p : {1.0f, 0.999f}) {
      params.top_k = top_k;
      params.top_p = top_p;
      const auto histogram = Histogram(logits, params, 3000);
      EXPECT_GE(histogram.size(), 36u);
      for (int id : {3, 4, 5}) EXPECT_EQ(histogram.count(id), 0u);
    }
}

TEST_F(SamplerTest, ARowWithoutAFiniteLogitGetsNoTokenAndItsNeighboursDo) {
  SamplingParams drawing;
  drawing.logprobs = 3;
  drawing.frequency_penalty = 1;
  SamplingParams cutting;
  cutting.top_k = 1;
  Assign(0, Greedy());
  Assign(1, drawing);
  Assign(2, cutting);
  Assign(3, Greedy());
  const auto out =
      SampleRows({NAN, -kInf, kInf, NAN, -kInf, -kInf, NAN, NAN, 1, 2}, {{.row = 5, .slot = 0},
                                                                         {.row = 6, .slot = 1},
                                                                         {.row = 7, .slot = 2},
                                                                         {.row = 8, .slot = 2},
                                                                         {.row = 17, .slot = 3}});
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(out[i].token, kNoToken);
  EXPECT_TRUE(out[1].top.empty());
  EXPECT_EQ(out[4].token, 1);
  EXPECT_TRUE(backend_->Sync().ok()) << backend_->Sync();
}

TEST_F(SamplerTest, AnUnboundSlotIsAStickyError) {
  Assign(2, Greedy());
  SampleRows({1, 2}, {{.row = 0, .slot = 1}});
  EXPECT_FALSE(backend_->Sync().ok());
}

TEST_F(SamplerTest, DrawsFollowTheSoftmax) {
  const std::vector<float> logits = {0, 1, 2, -1, 0.5f};
  const int count = 20000;
  for (float temperature : {0.5f, 1.0f, 2.0f}) {
    SamplingParams params;
    params.temperature = temperature;
    params.seed = 77;
    auto histogram = Histogram(logits, params, count);
    double sum = 0;
    for (float x : logits) sum += std::exp(double{x} / double{temperature});
    for (size_t i = 0; i < logits.size(); ++i) {
      const double p = std::exp(double{logits[i]} / double{temperature}) / sum;
      const double sigma = std::sqrt(p * (1 - p) / count);
      EXPECT_NEAR(histogram[static_cast<int32_t>(i)] / double{count}, p, 5 * sigma);
    }
  }
}

TEST_F(SamplerTest, TinyTemperatureIsGreedy) {
  SamplingParams params;
  params.temperature = 1e-40f;
  EXPECT_EQ(Histogram({1, 3, 2.999f, -100}, params, 50), (std::map<int32_t, int>{{1, 50}}));
}

TEST_F(SamplerTest, CutoffsKeepExactlyWhatTheySay) {
  // Probabilities 0.4, 0.3, 0.2, 0.1 of ids 2, 0, 3, 1.
  const std::vector<float> logits = {std::log(0.3f), std::log(0.1f), std::log(0.4f),
                                     std::log(0.2f)};
  const auto kept = [&](int top_k, float top_p, float min_p) {
    SamplingParams params;
    params.top_k = top_k;
    params.top_p = top_p;
    params.min_p = min_p;
    std::vector<int32_t> ids;
    for (const auto& [id, n] : Histogram(logits, params, 300)) ids.push_back(id);
    return ids;
  };
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(kept(0, 1, 0), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(kept(1, 1, 0), (Ids{2}));
  EXPECT_EQ(kept(3, 1, 0), (Ids{0, 2, 3}));
  EXPECT_EQ(kept(100, 1, 0), (Ids{0, 1, 2, 3}));
  EXPECT_EQ(kept(0, 0.35f, 0), (Ids{2}));
  EXPECT_EQ(kept(0, 0.45f, 0), (Ids{0, 2}));
  EXPECT_EQ(kept(0, 0.75f, 0), (Ids{0, 2, 3}));
  EXPECT_EQ(kept(0, 1e-9f, 0), (Ids{2})) << "one is always left";
  EXPECT_EQ(kept(0, 1, 0.45f), (Ids{0, 2, 3}));
  EXPECT_EQ(kept(0, 1, 0.6f), (Ids{0, 2}));
  EXPECT_EQ(kept(0, 1, 1), (Ids{2}));
  EXPECT_EQ(kept(2, 0.6f, 0), (Ids{0, 2})) << "0.4 is 4/7 of what top_k leaves";
  EXPECT_EQ(kept(2, 0.55f, 0), (Ids{2}));
  EXPECT_EQ(kept(0, 0.75f, 0.45f), (Ids{0, 2})) << "0.7 is 7/9 of what min_p leaves";
}

TEST_F(SamplerTest, CutoffsOfALargeVocabularyEqualAFullSort) {
  const int vocab = 5000;
  std::vector<float> logits = RandomFloats(vocab, 32);
  for (float& x : logits) x = std::round(x * 40) / 8;  // many ties
  std::vector<int32_t> order(static_cast<size_t>(vocab));
  for (int i = 0; i < vocab; ++i) order[static_cast<size_t>(i)] = i;
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  double total = 0;
  for (float x : logits) total += std::exp(double{x} - 5);
  DrawScratch scratch;
  const KernelTable& kernels = *AvailableIsas().front().kernels;
  for (const auto& [top_k, top_p] : std::vector<std::pair<int, float>>{
           {0, 0.05f}, {0, 0.5f}, {0, 0.9f}, {0, 0.9999f}, {37, 1.0f}, {2500, 1.0f}}) {
    SamplingParams params;
    params.top_k = top_k;
    params.top_p = top_p;
    double sum = 0;
    size_t expected = 0;
    if (top_k > 0) {
      expected = static_cast<size_t>(top_k);
    } else {
      while (sum < double{top_p} * total * (1 - 1e-9))
        sum += std::exp(double{logits[static_cast<size_t>(order[expected++])]} - 5);
    }
    for (int i = 0; i < 20; ++i)
      DrawToken(logits.data(), vocab, params, i / 20.0, kernels, scratch);
    std::vector<int32_t> ids;
    for (const Candidate& c : scratch.candidates) ids.push_back(c.id);
    std::vector<int32_t> reference(order.begin(), order.begin() + static_cast<int64_t>(expected));
    std::sort(reference.begin(), reference.end());
    EXPECT_EQ(ids, reference) << top_k << " " << top_p;
  }
}

TEST_F(SamplerTest, ADrawDependsOnSeedSampleAndPositionOnly) {
  const std::vector<float> logits = RandomFloats(50, 33);
  SamplingParams params;
  params.seed = 5;
  const auto alone = Sample(logits, params, 20);
  // The same positions as rows of one batch, in another slot, order, backend and thread count.
  backend_ = MakeTestBackend("scalar", 3);
  std::vector<SampleRow> rows;
  std::vector<float> all;
  for (int i = 19; i >= 0; --i) {
    Assign(i + 3, params);
    rows.push_back({.row = i, .slot = i + 3, .position = i});
    all.insert(all.end(), logits.begin(), logits.end());
  }
  const auto batched = SampleRows(all, rows);
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(batched[19 - i].token, alone[i].token);

  const auto differs = [&](const SamplingParams& other, int32_t sample_index) {
    Assign(0, other, {}, {}, sample_index);
    int different = 0;
    for (int i = 0; i < 20; ++i)
      different += SampleRows(logits, {{.row = 0, .slot = 0, .position = i}})[0].token !=
                   alone[static_cast<size_t>(i)].token;
    return different;
  };
  EXPECT_EQ(differs(params, 0), 0);
  EXPECT_GT(differs(params, 1), 10);
  params.seed = 6;
  EXPECT_GT(differs(params, 0), 10);
}

TEST_F(SamplerTest, UniformNumbersAreUniform) {
  int buckets[10] = {};
  for (int i = 0; i < 100000; ++i) {
    const double u = UniformNumber(static_cast<uint64_t>(i % 10), i % 7, i);
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    ++buckets[static_cast<int>(u * 10)];
  }
  for (int count : buckets) EXPECT_NEAR(count, 10000, 500);
}

TEST_F(SamplerTest, RepetitionPenaltyCoversPromptAndOutput) {
  SamplingParams params = Greedy();
  params.repetition_penalty = 2;
  EXPECT_EQ(Sample({3, 2, 1}, params, 1, false, {0})[0].token, 1) << "3 / 2";
  EXPECT_EQ(Sample({3, 2, 1.25f}, params, 1, false, {0}, {1})[0].token, 0) << "1.5, 1, 1.25";
  EXPECT_EQ(Sample({-1, -1.5f, -9}, params, 1, false, {0})[0].token, 1) << "-1 * 2";
  EXPECT_EQ(Sample({3, 2, 1}, params, 1, false, {0, 0, 0})[0].token, 1) << "once, however often";
  EXPECT_EQ(Sample({3, 2, 1}, params, 1, false, {-7, 99})[0].token, 0) << "unknown ids";
}

TEST_F(SamplerTest, PresenceAndFrequencyCoverOutputOnly) {
  SamplingParams params = Greedy();
  params.presence_penalty = 1;
  EXPECT_EQ(Sample({3, 2.5f}, params, 1, false, {0})[0].token, 0) << "the prompt does not count";
  EXPECT_EQ(Sample({3, 2.5f}, params, 1, false, {}, {0, 0})[0].token, 1);
  EXPECT_EQ(Sample({3.5f, 2.4f}, params, 1, false, {}, {0, 0})[0].token, 0) << "once";
  params.presence_penalty = 0;
  params.frequency_penalty = 0.5f;
  EXPECT_EQ(Sample({3, 2.4f}, params, 1, false, {}, {0})[0].token, 0);
  EXPECT_EQ(Sample({3, 2.4f}, params, 1, false, {}, {0, 0})[0].token, 1);
}

TEST_F(SamplerTest, DrawsAreCounted) {
  SamplingParams params = Greedy();
  params.frequency_penalty = 1;
  std::vector<int32_t> tokens;
  for (const SampledToken& s : Sample({3, 2.5f, 1.9f}, params, 6)) tokens.push_back(s.token);
  EXPECT_EQ(tokens, (std::vector<int32_t>{0, 1, 0, 2, 1, 0}));
  // Rows of one slot in one call are taken in order.
  Assign(0, params);
  std::vector<float> logits;
  std::vector<SampleRow> rows;
  for (int i = 0; i < 6; ++i) {
    logits.insert(logits.end(), {3, 2.5f, 1.9f});
    rows.push_back({.row = i, .slot = 0, .position = i});
  }
  const auto batched = SampleRows(logits, rows);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(batched[i].token, tokens[i]);
}

TEST_F(SamplerTest, AssignForgetsWhatASlotHeld) {
  SamplingParams params = Greedy();
  params.frequency_penalty = 1;
  Sample({3, 2.5f}, params, 5);
  EXPECT_EQ(Sample({3, 2.5f}, params)[0].token, 0);
}

TEST_F(SamplerTest, BiasAndStopMask) {
  SamplingParams params = Greedy();
  params.logit_bias = {{0, -2}, {2, 0.5f}, {77, 100}, {-1, 100}};
  EXPECT_EQ(Sample({3, 2, 1.8f}, params)[0].token, 2);
  params = Greedy();
  params.masked_until_min = {0, 99};
  EXPECT_EQ(Sample({3, 2, 1}, params)[0].token, 0);
  EXPECT_EQ(Sample({3, 2, 1}, params, 1, true)[0].token, 1);
  params.masked_until_min = {0, 1, 2};
  EXPECT_EQ(Sample({3, 2, 1}, params, 1, true)[0].token, 0) << "nothing left: not applied";
  EXPECT_TRUE(backend_->Sync().ok());
}

TEST_F(SamplerTest, LogprobsAreOfTheRawLogits) {
  std::vector<float> logits = RandomFloats(300, 34);
  for (float& x : logits) x *= 6;
  logits[7] = NAN;
  logits[8] = -kInf;
  double sum = 0;
  for (float x : logits)
    if (std::isfinite(x)) sum += std::exp(double{x});
  SamplingParams params;
  params.temperature = 0.7f;
  params.repetition_penalty = 1.5f;
  params.logprobs = 5;
  const SampledToken drawn = Sample(logits, params, 1, false, {1, 2, 3})[0];
  EXPECT_NEAR(drawn.logprob, double{logits[static_cast<size_t>(drawn.token)]} - std::log(sum),
              1e-5);
  ASSERT_EQ(drawn.top.size(), 5u);
  std::vector<float> sorted;
  for (float x : logits)
    if (std::isfinite(x)) sorted.push_back(x);
  std::sort(sorted.rbegin(), sorted.rend());
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(logits[static_cast<size_t>(drawn.top[i].token)], sorted[i]);
    EXPECT_NEAR(drawn.top[i].logprob, double{sorted[i]} - std::log(sum), 1e-5);
  }
  params.logprobs = 0;
  EXPECT_TRUE(Sample(logits, params)[0].top.empty());
  EXPECT_LT(Sample(logits, params)[0].logprob, 0);
  params.logprobs = 1000;
  EXPECT_EQ(Sample(logits, params)[0].top.size(), 298u);
}

TEST_F(SamplerTest, IdsFromVocabOnAreNeverDrawn) {
  Assign(0, Greedy());
  std::vector<float> logits = {1, 2, 9, 9};
  std::vector<SampledToken> out;
  const SampleRow row = {.row = 0, .slot = 0};
  backend_->sampling().Sample({logits.data(), 1, 4, 4}, 2, {&row, 1}, &out);
  EXPECT_EQ(out[0].token, 1);
  EXPECT_EQ(logits, (std::vector<float>{1, 2, 9, 9}));
  backend_->sampling().Sample({logits.data(), 1, 4, 4}, 5, {&row, 1}, &out);
  EXPECT_FALSE(backend_->Sync().ok());
}

}  // namespace
}  // namespace penstock
