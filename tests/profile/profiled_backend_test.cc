#include "shard/profile/profiled_backend.h"

#include <map>

#include "tests/backend/attention_testing.h"
#include "tests/backend/cpu_testing.h"

namespace penstock {
namespace {

struct Profiled {
  OperationLog log;
  std::unique_ptr<Backend> backend = MakeProfiledBackend(MakeTestBackend(), &log);
  std::map<std::string, OperationCost> costs() const {
    std::map<std::string, OperationCost> out;
    for (const OperationCost& each : log.operations()) out[each.name] = each;
    return out;
  }
};

using Outputs = std::vector<std::vector<float>>;

// Every dense operation once, on three rows.
Outputs RunDense(Backend& backend) {
  HostWeight host(20, 24, DType::kF16, 1), wide(40, 24, DType::kF16, 2);
  const auto weight = *backend.MakeWeight(host.view), gate_up = *backend.MakeWeight(wide.view);
  Floats x = Floats::Random(3, 24, 3), y = Floats::Random(3, 24, 4),
         norm = Floats::Random(1, 24, 5);
  Floats head = Floats::Random(1, 8, 6), residual = Floats::Random(3, 24, 7), normed(3, 24);
  Floats product(3, 20), both = Floats::Random(3, 40, 8), silu(3, 20), fused(3, 20), scratch(3, 40);
  Floats rows(3, 24), gathered(2, 24), copy(3, 24), embedded(2, 24);
  Ints ids({7, 11}), picked({2, 0});
  DenseOps& dense = backend.dense();
  dense.Embed(*weight, ids.view, 0, embedded.view);
  dense.MatMul(x.view, *weight, {}, product.view);
  dense.MatMulSiluMul(x.view, *gate_up, {}, scratch.view, fused.view);
  dense.RmsNorm(x.view, norm.view, 1e-5f, normed.view);
  dense.AddRmsNorm(x.view, norm.view, 1e-5f, residual.view, rows.view);
  dense.HeadRmsNorm(head.view, 1e-5f, 8, y.view);
  dense.Add(x.view, y.view);
  dense.SiluMul(both.view, silu.view);
  dense.GatherRows(x.view, picked.view, gathered.view);
  dense.Copy(x.view, copy.view);
  EXPECT_TRUE(backend.Sync().ok());
  return {embedded.Packed(), product.Packed(), fused.Packed(), normed.Packed(),   residual.Packed(),
          rows.Packed(),     y.Packed(),       silu.Packed(),  gathered.Packed(), copy.Packed()};
}

// Every operation of an encoder once, on texts of two and three tokens.
Outputs RunEncoder(Backend& backend) {
  Floats x = Floats::Random(5, 24, 1), delta = Floats::Random(5, 24, 2),
         qkv = Floats::Random(5, 72, 3);
  Floats weight = Floats::Random(1, 24, 4), bias = Floats::Random(1, 24, 5);
  Floats normed(5, 24), mixed(5, 24), mean(2, 24), sum = Floats::Random(5, 24, 6);
  Ints begin({0, 2, 5}), lengths({2, 3});
  const DeviceBatch batch = {.tokens = {},
                             .positions = {},
                             .slots = {},
                             .seq_begin = begin.view,
                             .context_lens = lengths.view,
                             .block_begin = {},
                             .blocks = {},
                             .sample_rows = {}};
  EncoderOps& encoder = backend.encoder();
  encoder.LayerNorm(x.view, weight.view, bias.view, 1e-5f, normed.view);
  encoder.AddLayerNorm(delta.view, weight.view, bias.view, 1e-5f, sum.view);
  encoder.Activate(Activation::kGelu, x.view);
  encoder.Attention(qkv.view, batch, {.heads = 3, .kv_heads = 3, .head_dim = 8, .scale = 0.3f},
                    mixed.view);
  encoder.MeanRows(mixed.view, begin.view, mean.view);
  encoder.NormalizeRows(delta.view);
  EXPECT_TRUE(backend.Sync().ok());
  return {normed.Packed(), sum.Packed(), x.Packed(), mixed.Packed(), mean.Packed(), delta.Packed()};
}

// A sequence of five tokens in chunks of three and two.
Outputs RunDecoder(Backend& backend, int32_t window) {
  const AttentionModel model = {
      .shape =
          {.heads = 2, .kv_heads = 1, .group = 2, .head_dim = 16, .window = window, .scale = 1},
      .dtype = DType::kF16};
  return RunSequences(backend, model, RandomSequences(model, {5}, 1), {.chunk = 3});
}

std::vector<SampledToken> Draw(Backend& backend) {
  SlotAssignment assignment;
  assignment.slot = 0;
  assignment.params.temperature = 1;
  backend.sampling().Assign({&assignment, 1});
  Floats logits = Floats::Random(1, 50, 9);
  const std::vector<SampleRow> rows = {{.row = 0, .slot = 0, .position = 3}};
  std::vector<SampledToken> out;
  backend.sampling().Sample(logits.view, 50, rows, &out);
  EXPECT_TRUE(backend.Sync().ok());
  return out;
}

TEST(ProfiledBackendTest, ResultsAreThoseOfTheRealOne) {
  const auto bare = MakeTestBackend();
  Profiled profiled;
  EXPECT_EQ(RunDense(*profiled.backend), RunDense(*bare));
  EXPECT_EQ(RunEncoder(*profiled.backend), RunEncoder(*bare));
  EXPECT_EQ(RunDecoder(*profiled.backend, 0), RunDecoder(*bare, 0));
  const auto drawn = Draw(*profiled.backend), expected = Draw(*bare);
  ASSERT_EQ(drawn.size(), 1u);
  EXPECT_EQ(drawn[0].token, expected.at(0).token);
  EXPECT_EQ(profiled.backend->signature(), bare->signature());
}

TEST(ProfiledBackendTest, EveryOperationIsCountedOnce) {
  Profiled profiled;
  RunDense(*profiled.backend);
  EXPECT_EQ(profiled.log.operations().size(), 10u);
  for (const OperationCost& each : profiled.log.operations()) {
    EXPECT_EQ(each.calls, 1) << each.name;
    EXPECT_GT(each.bytes, 0) << each.name;
  }
  profiled.log.Clear();
  RunEncoder(*profiled.backend);
  Draw(*profiled.backend);
  EXPECT_EQ(profiled.log.operations().size(), 7u);
}

TEST(ProfiledBackendTest, ProductsCountWeightsInputsAndOutputs) {
  Profiled profiled;
  RunDense(*profiled.backend);
  const double weight = static_cast<double>(profiled.backend->WeightBytes(20, 24, DType::kF16));
  const double wide = static_cast<double>(profiled.backend->WeightBytes(40, 24, DType::kF16));
  const auto costs = profiled.costs();
  EXPECT_EQ(costs.at("MatMul 24x20").flops, 2 * 3 * 20 * 24);
  EXPECT_EQ(costs.at("MatMul 24x20").bytes, weight + 4 * 3 * (24 + 20));
  EXPECT_EQ(costs.at("MatMul 24x20").kind, OperationKind::kProduct);
  EXPECT_EQ(costs.at("MatMulSiluMul 24x40").flops, 2 * 3 * 40 * 24);
  EXPECT_EQ(costs.at("MatMulSiluMul 24x40").bytes, wide + 4 * 3 * (24 + 20));
  EXPECT_EQ(costs.at("AddRmsNorm").bytes, 4 * 3 * 24 * 4);
  EXPECT_EQ(costs.at("AddRmsNorm").flops, 0);
  EXPECT_EQ(costs.at("AddRmsNorm").kind, OperationKind::kOther);
}

TEST(ProfiledBackendTest, AttentionCountsTheKeysThatRowsSee) {
  Profiled whole;
  RunDecoder(*whole.backend, 0);
  const double activations = 2 * 5 * 32 * 4, of_token = 2 * 16 * 2;
  EXPECT_EQ(whole.costs().at("Attention").calls, 2);
  EXPECT_EQ(whole.costs().at("Attention").flops, 4 * (1 + 2 + 3 + 4 + 5) * 32);
  EXPECT_EQ(whole.costs().at("Attention").bytes, (3 + 5) * of_token + activations);
  Profiled window;
  RunDecoder(*window.backend, 2);
  EXPECT_EQ(window.costs().at("Attention").flops, 4 * (1 + 2 + 2 + 2 + 2) * 32);
  EXPECT_EQ(window.costs().at("Attention").bytes, (3 + 3) * of_token + activations);
}

TEST(ProfiledBackendTest, EncodersCountPairsWithinATextOnly) {
  Profiled profiled;
  RunEncoder(*profiled.backend);
  EXPECT_EQ(profiled.costs().at("Attention").flops, 4 * (2 * 2 + 3 * 3) * 24);
  EXPECT_EQ(profiled.costs().at("Attention").bytes, 5 * (72 + 24) * 4);
  EXPECT_EQ(profiled.costs().at("Attention").kind, OperationKind::kAttention);
}

}  // namespace
}  // namespace penstock
