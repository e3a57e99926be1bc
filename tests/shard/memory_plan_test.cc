#include "shard/memory_plan.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/backend/cpu/cpu_backend.h"

namespace penstock {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class MemoryPlanTest : public ::testing::Test {
 protected:
  MemoryPlanTest() : backend_(*MakeCpuBackend({.threads = 1})) {
    spec_.architecture = "llama";
    spec_.layers = 8;
    spec_.hidden = 512;
    spec_.intermediate = 1024;
    spec_.heads = 8;
    spec_.kv_heads = 2;
    spec_.head_dim = 64;
    spec_.vocab = 32000;
    spec_.max_context = 4096;
  }
  absl::StatusOr<MemoryPlan> Plan(int tensor, int pipeline, const MemoryPlanOptions& options) {
    ShardPlanOptions cut;
    cut.tensor = tensor;
    cut.pipeline = pipeline;
    const auto plan = ShardPlan::Create(spec_, cut);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return PlanMemory(spec_, *plan, options, *backend_);
  }
  ModelSpec spec_;
  std::unique_ptr<Backend> backend_;
};

TEST_F(MemoryPlanTest, EverythingFitsIntoWhatIsAvailableAndASequenceHasRoom) {
  for (const int tensor : {1, 2})
    for (const int pipeline : {1, 3}) {
      MemoryPlanOptions options;
      options.available_bytes = int64_t{1} << 30;
      const auto memory = Plan(tensor, pipeline, options);
      ASSERT_TRUE(memory.ok()) << memory.status();
      EXPECT_LE(memory->total(), options.available_bytes);
      EXPECT_EQ(memory->info.max_context, 4096);
      EXPECT_GE(memory->info.kv_blocks * memory->info.kv_block_size, 4096);
      EXPECT_EQ(memory->info.stages, pipeline);
      EXPECT_EQ(std::ssize(memory->ranks), tensor * pipeline);
    }
}

TEST_F(MemoryPlanTest, ShardsHoldOnlyTheirOwnWeights) {
  MemoryPlanOptions options;
  options.available_bytes = int64_t{4} << 30;
  const auto whole = Plan(1, 1, options), cut = Plan(2, 2, options);
  ASSERT_TRUE(whole.ok() && cut.ok());
  int64_t weights = 0;
  for (const RankMemory& rank : cut->ranks) weights += rank.weights;
  // The rotary tables and norms are everywhere; nothing else is held twice.
  EXPECT_LT(static_cast<double>(weights), 1.2 * static_cast<double>(whole->ranks[0].weights));
  for (const RankMemory& rank : cut->ranks)
    EXPECT_LT(static_cast<double>(rank.weights), 0.55 * static_cast<double>(weights));
}

TEST_F(MemoryPlanTest, AnUnsetContextShrinksToWhatFits) {
  MemoryPlanOptions roomy;
  roomy.available_bytes = int64_t{1} << 30;
  const auto plenty = Plan(1, 1, roomy);
  ASSERT_TRUE(plenty.ok());
  MemoryPlanOptions tight;
  tight.available_bytes = plenty->total() - plenty->ranks[0].kv + (int64_t{2} << 20);
  const auto memory = Plan(1, 1, tight);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_LT(memory->info.max_context, 4096);
  EXPECT_GT(memory->info.max_context, 16);
  EXPECT_LE(memory->total(), tight.available_bytes);
}

TEST_F(MemoryPlanTest, ARefusalNamesTheLargestSettingThatFitsAndThatOneDoes) {
  MemoryPlanOptions roomy;
  roomy.available_bytes = int64_t{1} << 30;
  const int64_t fixed = Plan(1, 1, roomy)->total() - Plan(1, 1, roomy)->ranks[0].kv;
  MemoryPlanOptions options;
  options.available_bytes = fixed + (int64_t{3} << 20);
  options.max_context = 4096;
  const absl::Status refused = Plan(1, 1, options).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  const std::string message(refused.message());
  EXPECT_THAT(message, HasSubstr("rank 0 needs"));
  const std::string phrase = "--max-context that fits is ";
  ASSERT_THAT(message, HasSubstr(phrase));
  options.max_context = std::stoi(message.substr(message.find(phrase) + phrase.size()));
  EXPECT_TRUE(Plan(1, 1, options).ok());
  options.max_context += 16;
  EXPECT_FALSE(Plan(1, 1, options).ok());
}

TEST_F(MemoryPlanTest, ContradictionsAreNamed) {
  MemoryPlanOptions options;
  options.available_bytes = int64_t{1} << 30;
  options.max_context = 2048;
  options.kv_tokens = 1024;
  EXPECT_THAT(std::string(Plan(1, 1, options).status().message()), HasSubstr("kv_tokens (1024)"));
  options.max_context = 1;
  EXPECT_THAT(std::string(Plan(1, 1, options).status().message()), HasSubstr("no room"));
  options = {};
  options.max_sequences = 1024;
  EXPECT_THAT(std::string(Plan(1, 1, options).status().message()), HasSubstr("max_step_tokens"));
}

class EncoderMemoryPlanTest : public MemoryPlanTest {
 protected:
  EncoderMemoryPlanTest() {
    spec_.architecture = "bert";
    spec_.kv_heads = spec_.heads;
    spec_.max_context = 512;
    spec_.encoder.emplace();
    spec_.encoder->positions = 514;
    spec_.encoder->token_types = 2;
  }
  std::string ErrorOf(const MemoryPlanOptions& options) {
    return std::string(Plan(2, 2, options).status().message());
  }
};

TEST_F(EncoderMemoryPlanTest, AStepHasRoomForWholeSequencesAndThereIsNoCache) {
  const auto memory = Plan(2, 2, {});
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->info.kv_blocks, 0);
  EXPECT_EQ(memory->info.kv_block_size, 0);
  EXPECT_EQ(memory->info.max_context, 512);
  EXPECT_EQ(memory->info.max_step_tokens, 4096);
  EXPECT_EQ(memory->options.max_step_tokens, 4096);
  EXPECT_EQ(memory->info.output_width, 512);
  EXPECT_EQ(memory->info.token_types, 2);
  for (const RankMemory& rank : memory->ranks) EXPECT_EQ(rank.kv, 0);
  spec_.max_context = 8192;
  EXPECT_EQ(Plan(1, 1, {})->info.max_step_tokens, 8192);
}

TEST_F(EncoderMemoryPlanTest, SettingsThatCannotWorkAreNamed) {
  MemoryPlanOptions options;
  options.max_step_tokens = 511;
  EXPECT_THAT(ErrorOf(options),
              AllOf(HasSubstr("max_step_tokens (511)"), HasSubstr("max_context (512)")));
  options.max_context = 511;
  EXPECT_TRUE(Plan(1, 1, options).ok());
  options.max_context = 513;
  EXPECT_THAT(ErrorOf(options), HasSubstr("exceeds the 512 positions"));
  options = {};
  options.kv_tokens = 4096;
  EXPECT_THAT(ErrorOf(options), HasSubstr("kv_tokens (4096) is set, but bert has no KV cache"));
}

TEST_F(EncoderMemoryPlanTest, ARefusalNamesTheLargestStepThatFitsAndThatOneDoes) {
  const int64_t full = Plan(1, 1, {})->total();
  MemoryPlanOptions options;
  options.available_bytes = full - (int64_t{2} << 20);
  const std::string message(Plan(1, 1, options).status().message());
  const std::string phrase = "--max-step-tokens that fits is ";
  ASSERT_THAT(message, HasSubstr(phrase));
  options.max_step_tokens = std::stoi(message.substr(message.find(phrase) + phrase.size()));
  EXPECT_TRUE(Plan(1, 1, options).ok());
  options.max_step_tokens += 16;
  EXPECT_FALSE(Plan(1, 1, options).ok());
  options.available_bytes = 1 << 20;
  EXPECT_THAT(std::string(Plan(1, 1, options).status().message()), HasSubstr("smaller --dtype"));
}

// A row's products with the weights cost hidden x width each, those with a token of its context
// twice the heads' width.
TEST_F(MemoryPlanTest, ContextCostIsTheShareOfAttention) {
  const auto memory = Plan(1, 1, {});
  ASSERT_TRUE(memory.ok()) << memory.status();
  const double weights = 512.0 * (2 * 8 + 2 * 2) * 64 + 3.0 * 512 * 1024;
  EXPECT_NEAR(memory->info.context_cost, 2.0 * 8 * 64 / weights, 1e-8);
}

}  // namespace
}  // namespace penstock
