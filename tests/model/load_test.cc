#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shard/backend/cpu/cpu_backend.h"
#include "shard/model/model.h"
#include "shard/model/scratch.h"
#include "shard/model/weight_loader.h"
#include "tests/model/altered_checkpoint.h"
#include "tests/model/counting_backend.h"
#include "tests/model/golden_model.h"

namespace penstock {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Load : public testing::Test {
 protected:
  void Open(const std::string& name) {
    checkpoint_ = *Checkpoint::Open(GoldenFolder(name));
    spec_ = *ParseModelSpec(checkpoint_->config());
    backend_ = std::make_unique<CountingBackend>(*MakeCpuBackend({.threads = 1}));
  }
  absl::StatusOr<std::unique_ptr<Model>> LoadRank(const Checkpoint& checkpoint,
                                                  const ShardPlan& plan, int rank,
                                                  DType dtype = DType::kF16) {
    return LoadModel(spec_, plan, rank, dtype, kContext, checkpoint, *backend_, nullptr);
  }
  ShardPlan Plan(int tensor, int pipeline) {
    return *ShardPlan::Create(spec_, {.tensor = tensor, .pipeline = pipeline});
  }

  static constexpr int32_t kContext = 50;
  std::unique_ptr<Checkpoint> checkpoint_;
  ModelSpec spec_;
  std::unique_ptr<CountingBackend> backend_;
};

TEST_F(Load, FootprintIsWhatLoadingTakes) {
  for (const std::string& name : GoldenModels()) {
    Open(name);
    for (const auto& [tensor, pipeline] : {std::pair{1, 1}, {3, 1}, {1, 2}, {2, 2}}) {
      const ShardPlan plan = Plan(tensor, pipeline);
      for (int rank = 0; rank < plan.ranks(); ++rank) {
        for (const DType dtype : {DType::kF32, DType::kF16}) {
          backend_->bytes = 0;
          const auto model = LoadRank(*checkpoint_, plan, rank, dtype);
          ASSERT_TRUE(model.ok()) << model.status();
          const ModelFootprint footprint =
              MeasureModel(spec_, plan, rank, dtype, kContext, 8, 8, *backend_);
          EXPECT_EQ(footprint.weight_bytes, backend_->bytes) << name << " rank " << rank;
          EXPECT_EQ(footprint.layers, (*model)->layers());
          EXPECT_EQ(footprint.attention.heads, (*model)->attention_shape().heads);
        }
      }
    }
  }
}

TEST_F(Load, ATiedTableIsLoadedOnce) {
  Open("llama-gqa-tied-llama3");
  ASSERT_TRUE(LoadRank(*checkpoint_, Plan(1, 1), 0).ok());
  EXPECT_EQ(backend_->weights, 1 + 4 * spec_.layers);
  Open("llama-mha");
  ASSERT_TRUE(LoadRank(*checkpoint_, Plan(1, 1), 0).ok());
  EXPECT_EQ(backend_->weights, 2 + 4 * spec_.layers);
}

TEST_F(Load, ARankReadsNoMoreThanItsPart) {
  Open("llama-mha");
  int64_t wanted = 0, stored = 0;
  const ShardPlan plan = Plan(1, 2);
  for (int rank = 0; rank < 2; ++rank) {
    ReadProgress progress;
    ASSERT_TRUE(
        LoadModel(spec_, plan, rank, DType::kF32, kContext, *checkpoint_, *backend_, &progress)
            .ok());
    wanted += progress.wanted_bytes;
  }
  for (const TensorInfo& tensor : checkpoint_->Tensors()) stored += tensor.stored_bytes;
  EXPECT_EQ(wanted, stored);
}

TEST_F(Load, MissingTensorsAreNamed) {
  Open("qwen3-bias");
  for (const std::string name :
       {"model.embed_tokens.weight", "lm_head.weight", "model.norm.weight",
        "model.layers.1.self_attn.k_proj.weight", "model.layers.1.self_attn.o_proj.bias",
        "model.layers.0.self_attn.q_norm.weight", "model.layers.0.mlp.down_proj.weight"}) {
    AlteredCheckpoint altered(*checkpoint_);
    altered.Remove(name);
    EXPECT_THAT(LoadRank(altered, Plan(1, 1), 0).status().ToString(), HasSubstr(name));
  }
}

TEST_F(Load, WrongShapesAreNamedWithBothShapes) {
  Open("llama-mha");
  const std::string q = "model.layers.0.self_attn.q_proj.weight";
  AlteredCheckpoint altered(*checkpoint_);
  altered.Reshape(q, {32, 40});
  EXPECT_THAT(LoadRank(altered, Plan(1, 1), 0).status().ToString(),
              AllOf(HasSubstr(q), HasSubstr("[32, 40]"), HasSubstr("[32, 32]")));
  for (const std::string name : {"model.norm.weight", "lm_head.weight"}) {
    AlteredCheckpoint other(*checkpoint_);
    other.Reshape(name, {7});
    EXPECT_THAT(LoadRank(other, Plan(2, 1), 1).status().ToString(),
                AllOf(HasSubstr(name), HasSubstr("[7]")));
  }
}

TEST_F(Load, RefusesARankOrAContextThatCannotBe) {
  Open("llama-mha");
  EXPECT_FALSE(LoadRank(*checkpoint_, Plan(1, 1), 1).ok());
  EXPECT_FALSE(LoadRank(*checkpoint_, Plan(1, 1), -1).ok());
  EXPECT_FALSE(
      LoadModel(spec_, Plan(1, 1), 0, DType::kF32, 0, *checkpoint_, *backend_, nullptr).ok());
}

TEST(ScratchTest, MatricesDoNotOverlapAndCopiesGoOnFromThere) {
  std::vector<float> block(1000);
  Scratch scratch(Matrix{block.data(), 1, 1000, 1000, DType::kF32});
  const Matrix first = scratch.Take(3, 5);
  Scratch phase = scratch;
  const Matrix second = phase.Take(2, 4);
  EXPECT_GE(second.F32(), first.F32() + 15);
  EXPECT_EQ(scratch.Take(1, 1).F32(), second.F32());
  Scratch counting;
  counting.Take(3, 5);
  counting.Take(2, 4);
  EXPECT_EQ(counting.used(), phase.used());
}

}  // namespace
}  // namespace penstock
