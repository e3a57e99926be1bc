#include <cmath>
#include <map>

#include "gtest/gtest.h"
#include "tests/shard/testing.h"

namespace penstock {
namespace {

constexpr int kTokens = 41;

float MaxRelative(const std::vector<float>& a, const std::vector<float>& b) {
  float difference = 0, largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  return difference / largest;
}

class InvarianceTest : public ::testing::TestWithParam<const char*> {};

// The stages, the chunks, the steps in flight and the blocks are nobody's business: the bits of a
// result depend on the tensor degree alone, and on that only by rounding.
TEST_P(InvarianceTest, BitsDependOnTheTensorDegreeAlone) {
  const std::vector<int32_t> tokens = RandomTokens(kTokens, 7);
  const bool deep = std::string(GetParam()) == "llama-uneven";  // the others have two layers
  const int most_stages = deep ? 3 : 2;
  std::vector<float> one_rank;
  for (const int tensor : {1, 2, 3, 4}) {
    std::vector<float> reference;
    for (int pipeline = 1; pipeline <= most_stages; ++pipeline) {
      TestGroupOptions options;
      options.model = std::string("models/") + GetParam();
      options.tensor = tensor;
      options.pipeline = pipeline;
      const auto executor = LoadTestGroup(options);
      for (const int chunk : {kTokens, 16, 5, 1})
        for (const int in_flight : {1, pipeline + 1}) {
          const auto logits =
              LogitsOf(*executor, tokens, chunk, in_flight,
                       chunk == 5 ? std::vector<int32_t>{9, 2, 30} : std::vector<int32_t>{0, 1, 2});
          if (reference.empty()) reference = logits;
          ASSERT_EQ(logits, reference)
              << "tensor " << tensor << " pipeline " << pipeline << " chunk " << chunk;
        }
    }
    if (one_rank.empty()) one_rank = reference;
    EXPECT_LT(MaxRelative(reference, one_rank), 1e-4f);
    EXPECT_GT(MaxRelative({0, 1}, {1, 0}), 0.5f);
  }
}

TEST_P(InvarianceTest, ASequenceDoesNotFeelItsBatchMates) {
  TestGroupOptions options;
  options.model = std::string("models/") + GetParam();
  options.tensor = 2;
  options.pipeline = 2;
  const auto executor = LoadTestGroup(options);
  const size_t vocab = static_cast<size_t>(executor->info().vocab);
  std::vector<Piece> pieces;
  for (int i = 0; i < 12; ++i) {
    const int length = 1 + i % 7;
    pieces.push_back({RandomTokens(length, static_cast<unsigned>(i)), 0, length, {3 * i}});
  }
  executor->Launch(MakeStep(*executor, 0, pieces));
  const auto together = executor->Wait();
  ASSERT_TRUE(together.ok()) << together.status();
  ASSERT_TRUE(executor->Restart().ok());
  size_t at = 0;
  for (const Piece& piece : pieces) {
    const auto alone = LogitsOf(*executor, piece.tokens, 64, 1, {40});
    const auto begin = together->logits.begin() + static_cast<std::ptrdiff_t>(at);
    EXPECT_EQ(alone, std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(alone.size())));
    at += piece.tokens.size() * vocab;
  }
  EXPECT_EQ(at, together->logits.size());
}

INSTANTIATE_TEST_SUITE_P(Models, InvarianceTest,
                         ::testing::Values("llama-uneven", "llama-mha", "llama-bias",
                                           "mistral-window", "qwen2", "qwen3",
                                           "llama-gqa-tied-llama3"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace penstock
