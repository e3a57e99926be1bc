#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/shard/testing.h"
#include "tests/support/golden_file.h"

namespace penstock {
namespace {

using ::testing::HasSubstr;

constexpr const char* kFolder = PENSTOCK_TEST_DATA "/encoders/";

// What the reference implementation says about a tiny encoder of tests/data/encoders.
struct Golden {
  explicit Golden(const std::string& name)
      : file(kFolder + name + "/golden.safetensors"), outputs(file.Read<float>("outputs")) {
    const auto lengths = file.Read<int32_t>("lengths");
    const auto ids = file.Read<int32_t>("input_ids"), types = file.Read<int32_t>("token_types");
    std::ptrdiff_t at = 0;
    for (const int32_t length : lengths) {
      sequences.push_back({{ids.begin() + at, ids.begin() + at + length},
                           {types.begin() + at, types.begin() + at + length}});
      at += length;
    }
  }
  GoldenFile file;
  std::vector<WholeSequence> sequences;
  std::vector<float> outputs;
};

std::vector<std::string> EncoderNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

std::unique_ptr<Executor> LoadEncoder(const std::string& name, int tensor = 1, int pipeline = 1) {
  TestGroupOptions options;
  options.model = "encoders/" + name;
  options.tensor = tensor;
  options.pipeline = pipeline;
  options.max_step_tokens = 256;
  return LoadTestGroup(options);
}

std::vector<float> Encode(Executor& executor, const std::vector<WholeSequence>& sequences) {
  executor.Launch(MakeEncodeStep(executor, 0, sequences));
  const auto result = executor.Wait();
  EXPECT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(executor.Restart().ok());
  return result.ok() ? result->outputs : std::vector<float>();
}

// The worst row's max |a - b| / max |b|.
double WorstError(const std::vector<float>& a, const std::vector<float>& b, int32_t width) {
  if (a.size() != b.size()) return 1e9;
  double worst = 0;
  for (size_t row = 0; row < b.size(); row += static_cast<size_t>(width)) {
    double error = 0, largest = 0;
    for (size_t i = row; i < row + static_cast<size_t>(width); ++i) {
      error = std::max(error, std::abs(double{a[i]} - double{b[i]}));
      largest = std::max(largest, std::abs(double{b[i]}));
    }
    worst = std::max(worst, std::isfinite(error) ? error / std::max(largest, 0.1) : 1e9);
  }
  return worst;
}

class EncoderTest : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, EncoderTest, ::testing::ValuesIn(EncoderNames()),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST_P(EncoderTest, ResultsAreTheReferencesForEverySplitAndStagesDoNotChangeABit) {
  const Golden golden(GetParam());
  for (const int tensor : {1, 2, 3}) {
    std::vector<float> one_stage;
    for (const int pipeline : {1, 2}) {
      const auto executor = LoadEncoder(GetParam(), tensor, pipeline);
      const auto outputs = Encode(*executor, golden.sequences);
      const int32_t width = executor->info().output_width;
      EXPECT_LE(WorstError(outputs, golden.outputs, width), 1e-4) << tensor << " x " << pipeline;
      if (one_stage.empty()) one_stage = outputs;
      EXPECT_EQ(outputs, one_stage) << tensor << " x " << pipeline;
    }
  }
}

TEST_P(EncoderTest, ASequenceDoesNotFeelItsBatchMates) {
  const Golden golden(GetParam());
  const auto executor = LoadEncoder(GetParam(), 2, 2);
  const auto width = static_cast<std::ptrdiff_t>(executor->info().output_width);
  std::vector<WholeSequence> reversed(golden.sequences.rbegin(), golden.sequences.rend());
  const auto together = Encode(*executor, golden.sequences), other = Encode(*executor, reversed);
  for (size_t i = 0; i < golden.sequences.size(); ++i) {
    const auto alone = Encode(*executor, {golden.sequences[i]});
    const auto at = together.begin() + static_cast<std::ptrdiff_t>(i) * width;
    EXPECT_EQ(alone, std::vector<float>(at, at + width)) << i;
    const auto back = other.end() - static_cast<std::ptrdiff_t>(i + 1) * width;
    EXPECT_EQ(alone, std::vector<float>(back, back + width)) << i;
  }
}

TEST(EncoderGroupTest, AllFamiliesAreThere) { EXPECT_GE(EncoderNames().size(), 10u); }

TEST(EncoderGroupTest, StepsInFlightComeBackInOrder) {
  const Golden golden("bert-uneven");
  const auto executor = LoadEncoder("bert-uneven", 1, 3);
  const auto expected = Encode(*executor, {golden.sequences[3]});
  for (int64_t step = 0; step < 4; ++step) {
    const auto which = static_cast<size_t>(step == 2 ? 3 : step);
    executor->Launch(MakeEncodeStep(*executor, step, {golden.sequences[which]}));
  }
  for (int64_t step = 0; step < 4; ++step) {
    const auto result = executor->Wait();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->step, step);
    EXPECT_EQ(result->stages.size(), 3u);
    EXPECT_EQ(result->outputs == expected, step == 2 || step == 3);
  }
}

TEST(EncoderGroupTest, NoTokenTypesAreAllZero) {
  Golden golden("bert-mean");
  const auto executor = LoadEncoder("bert-mean");
  WholeSequence sequence = golden.sequences[4];
  std::fill(sequence.token_types.begin(), sequence.token_types.end(), 0);
  const auto zeros = Encode(*executor, {sequence});
  sequence.token_types.clear();
  EXPECT_EQ(Encode(*executor, {sequence}), zeros);
  sequence.token_types.assign(sequence.tokens.size(), 1);
  EXPECT_NE(Encode(*executor, {sequence}), zeros);
}

TEST(EncoderGroupTest, InfoTellsTheLimits) {
  const auto executor = LoadEncoder("bert-cls-normalized", 2, 2);
  const ExecutorInfo& info = executor->info();
  EXPECT_EQ(info.kv_blocks, 0);
  EXPECT_EQ(info.output_width, 32);
  EXPECT_EQ(info.token_types, 2);
  EXPECT_EQ(info.max_context, 40) << "max_seq_length, not the 48 positions";
  EXPECT_EQ(info.max_step_tokens, 256);
  EXPECT_EQ(info.vocab, 97);
  EXPECT_EQ(LoadEncoder("roberta-classify")->info().output_width, 3);
  EXPECT_EQ(LoadEncoder("roberta-classify")->info().max_context, 48) << "50 rows less the offset";
}

struct Spoiling {
  const char* field;
  std::function<void(StepBatch&)> spoil;
};

TEST(EncoderGroupTest, AMalformedStepIsRefusedByFieldAndTheNextEpochWorks) {
  const Golden golden("bert-mean");
  const auto executor = LoadEncoder("bert-mean", 2, 2);
  const auto good = [&] {
    return MakeEncodeStep(*executor, 0, {golden.sequences[1], golden.sequences[2]});
  };
  const std::vector<Spoiling> spoilings = {
      {"kind", [](StepBatch& b) { b.kind = StepKind::kGenerate; }},
      {"tokens", [](StepBatch& b) { b.tokens[3] = 97; }},
      {"token_types", [](StepBatch& b) { b.token_types[3] = 2; }},
      {"token_types", [](StepBatch& b) { b.token_types[3] = -1; }},
      {"token_types", [](StepBatch& b) { b.token_types.pop_back(); }},
      {"positions", [](StepBatch& b) { b.positions[8] = 8; }},
      {"positions", [](StepBatch& b) { b.positions.pop_back(); }},
      {"context_lens", [](StepBatch& b) { b.context_lens[0] = 3; }},
      {"seq_begin", [](StepBatch& b) { b.seq_begin[1] = 0; }},
      {"slots", [](StepBatch& b) { b.slots = b.positions; }},
      {"blocks", [](StepBatch& b) { b.blocks = {0}; }},
      {"samples", [](StepBatch& b) { b.samples.push_back({}); }},
      {"assignments", [](StepBatch& b) { b.assignments.push_back({}); }},
      {"context_lens",
       [](StepBatch& b) {  // one sequence longer than the positions
         b.seq_begin = {0, 49};
         b.context_lens = {49};
         b.tokens.assign(49, 5);
         b.token_types.clear();
         b.positions.clear();
         for (int32_t i = 0; i < 49; ++i) b.positions.push_back(i);
       }},
  };
  for (const Spoiling& spoiling : spoilings) {
    StepBatch batch = good();
    spoiling.spoil(batch);
    executor->Launch(batch);
    const auto result = executor->Wait();
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << spoiling.field;
    EXPECT_THAT(std::string(result.status().message()), HasSubstr(spoiling.field));
    ASSERT_TRUE(executor->Restart().ok());
    executor->Launch(good());
    ASSERT_TRUE(executor->Wait().ok());
    ASSERT_TRUE(executor->Restart().ok());
  }
}

TEST(EncoderGroupTest, AnEncodeStepOnAModelThatGeneratesIsRefused) {
  const auto executor = LoadTestGroup({});
  executor->Launch(MakeEncodeStep(*executor, 0, {{{1, 2, 3}, {}}}));
  EXPECT_THAT(std::string(executor->Wait().status().message()),
              HasSubstr("kind: the step encodes, but the model generates"));
}

}  // namespace
}  // namespace penstock
