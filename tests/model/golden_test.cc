#include <gtest/gtest.h>

#include <functional>

#include "tests/model/golden_model.h"

namespace penstock {
namespace {

struct Loaded {
  explicit Loaded(const std::string& name) : golden(ReadGolden(name)) {
    auto opened = Checkpoint::Open(GoldenFolder(name));
    EXPECT_TRUE(opened.ok()) << opened.status();
    checkpoint = *std::move(opened);
    auto parsed = ParseModelSpec(checkpoint->config());
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    spec = *std::move(parsed);
  }
  double Error(const RunOptions& options) const {
    const auto logits = RunModel(*checkpoint, spec, golden.input_ids, options);
    EXPECT_TRUE(logits.ok()) << logits.status();
    return logits.ok() ? RelativeError(*logits, golden.logits, spec.vocab) : 1e9;
  }

  Golden golden;
  std::unique_ptr<Checkpoint> checkpoint;
  ModelSpec spec;
};

std::string TestName(const testing::TestParamInfo<std::string>& info) {
  std::string out;
  for (const char c : info.param)
    if (c != '-') out.push_back(c);
  return out;
}

class GoldenModel : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, GoldenModel, testing::ValuesIn(GoldenModels()), TestName);

TEST_P(GoldenModel, LogitsEqualTheReferencesInFp32) {
  EXPECT_LE(Loaded(GetParam()).Error({}), 1e-3);
}

TEST_P(GoldenModel, LogitsEqualTheReferencesInFp16) {
  RunOptions options;
  options.dtype = DType::kF16;
  EXPECT_LE(Loaded(GetParam()).Error(options), 1e-2);
}

TEST_P(GoldenModel, LogitsAreNearTheReferencesInBf16) {
  RunOptions options;
  options.dtype = DType::kBF16;
  EXPECT_LE(Loaded(GetParam()).Error(options), 1e-1);  // 8 bits of mantissa
}

TEST_P(GoldenModel, TensorParallelLogitsEqualTheReferences) {
  const Loaded model(GetParam());
  for (const int tensor : {2, 3, 4}) {
    RunOptions options;
    options.tensor = tensor;
    EXPECT_LE(model.Error(options), 1e-3) << tensor << " ranks";
  }
}

TEST_P(GoldenModel, ChunksGiveTheSameBits) {
  const Loaded model(GetParam());
  RunOptions chunked;
  chunked.chunk = 7;
  const auto whole = RunModel(*model.checkpoint, model.spec, model.golden.input_ids, {});
  const auto parts = RunModel(*model.checkpoint, model.spec, model.golden.input_ids, chunked);
  ASSERT_TRUE(whole.ok() && parts.ok());
  EXPECT_EQ(*whole, *parts);
}

// The greedy continuation follows from logits that are the reference's at every step.
TEST_P(GoldenModel, GreedyContinuationEqualsTheReferences) {
  const Loaded model(GetParam());
  std::vector<int32_t> tokens = model.golden.input_ids;
  tokens.insert(tokens.end(), model.golden.greedy.begin(), model.golden.greedy.end() - 1);
  const auto logits = RunModel(*model.checkpoint, model.spec, tokens, {});
  ASSERT_TRUE(logits.ok()) << logits.status();
  for (size_t i = 0; i < model.golden.greedy.size(); ++i) {
    const auto row = logits->begin() +
                     static_cast<int64_t>(model.golden.input_ids.size() + i - 1) * model.spec.vocab;
    EXPECT_EQ(std::max_element(row, row + model.spec.vocab) - row, model.golden.greedy[i]) << i;
  }
}

// A slip in what a configuration says must show, or the golden tests prove little.
struct Slip {
  const char* model;
  const char* what;
  std::function<void(ModelSpec&)> make;
};

TEST(GoldenSensitivity, EveryFieldMatters) {
  const Slip slips[] = {
      {"llama-mha", "theta", [](ModelSpec& s) { s.rope.theta = 500; }},
      {"llama-mha", "norm_eps", [](ModelSpec& s) { s.norm_eps = 0.1f; }},
      {"llama-gqa-tied-llama3", "llama3",
       [](ModelSpec& s) { s.rope.scaling = RopeScaling::kNone; }},
      {"llama-gqa-tied-llama3", "low_freq", [](ModelSpec& s) { s.rope.low_freq_factor = 2; }},
      {"llama-linear", "linear", [](ModelSpec& s) { s.rope.factor = 1; }},
      {"llama-yarn", "beta_fast", [](ModelSpec& s) { s.rope.beta_fast = 32; }},
      {"llama-yarn", "attention_factor", [](ModelSpec& s) { s.rope.attention_factor = 1; }},
      {"llama-yarn-mscale", "mscale", [](ModelSpec& s) { s.rope.mscale = 0; }},
      {"llama-yarn-mscale", "truncate", [](ModelSpec& s) { s.rope.truncate = true; }},
      {"mistral-window", "window", [](ModelSpec& s) { s.windows.assign(s.windows.size(), 0); }},
      {"mistral-window", "window - 1", [](ModelSpec& s) { s.windows.assign(s.windows.size(), 7); }},
      {"qwen2-window", "first layers", [](ModelSpec& s) { s.windows[0] = s.windows[2]; }},
      {"qwen2", "qkv_bias", [](ModelSpec& s) { s.qkv_bias = false; }},
      {"qwen3", "qk_norm", [](ModelSpec& s) { s.qk_norm = false; }},
      {"qwen3-bias", "out bias", [](ModelSpec& s) { s.attention_out_bias = false; }},
      {"llama-bias", "mlp_bias", [](ModelSpec& s) { s.mlp_bias = false; }},
  };
  for (const Slip& slip : slips) {
    Loaded model(slip.model);
    slip.make(model.spec);
    EXPECT_GT(model.Error({}), 3e-3) << slip.model << ": " << slip.what;
  }
}

TEST(GoldenModels, AllAreThere) { EXPECT_GE(GoldenModels().size(), 13u); }

// Beyond the original length the base is fixed from the configured context, so it differs from the
// reference, whose base at 40 tokens is the original one.
TEST(DynamicScaling, BaseFollowsTheConfiguredContext) {
  const Loaded model("llama-dynamic");
  RunOptions longer;
  longer.max_context = 2 * model.spec.max_context;
  EXPECT_GT(model.Error(longer), 1e-2);
}

}  // namespace
}  // namespace penstock
