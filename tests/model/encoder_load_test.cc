#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "shard/backend/cpu/cpu_backend.h"
#include "shard/model/model.h"
#include "tests/model/altered_checkpoint.h"
#include "tests/model/counting_backend.h"

namespace penstock {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kFolder = PENSTOCK_TEST_DATA "/encoders/";

class EncoderLoad : public testing::Test {
 protected:
  void Open(const std::string& name) {
    checkpoint_ = *Checkpoint::Open(kFolder + name);
    spec_ = *ParseModelSpec(checkpoint_->config());
    backend_ = std::make_unique<CountingBackend>(*MakeCpuBackend({.threads = 1}));
  }
  absl::StatusOr<std::unique_ptr<Model>> LoadRank(const Checkpoint& checkpoint,
                                                  const ShardPlan& plan, int rank,
                                                  DType dtype = DType::kF16,
                                                  ReadProgress* progress = nullptr) {
    return LoadModel(spec_, plan, rank, dtype, spec_.max_context, checkpoint, *backend_, progress);
  }
  ShardPlan Plan(int tensor, int pipeline) {
    ShardPlanOptions cut;
    cut.tensor = tensor;
    cut.pipeline = pipeline;
    return *ShardPlan::Create(spec_, cut);
  }
  std::string ErrorWithout(const std::string& tensor) {
    AlteredCheckpoint altered(*checkpoint_);
    altered.Remove(tensor);
    return LoadRank(altered, Plan(1, 1), 0).status().ToString();
  }

  std::unique_ptr<Checkpoint> checkpoint_;
  ModelSpec spec_;
  std::unique_ptr<CountingBackend> backend_;
};

TEST_F(EncoderLoad, FootprintIsWhatLoadingTakes) {
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    Open(entry.path().filename());
    for (const auto& [tensor, pipeline] : {std::pair{1, 1}, {3, 1}, {1, 2}, {2, 2}}) {
      const ShardPlan plan = Plan(tensor, pipeline);
      for (int rank = 0; rank < plan.ranks(); ++rank)
        for (const DType dtype : {DType::kF32, DType::kBF16}) {
          backend_->bytes = 0;
          const auto model = LoadRank(*checkpoint_, plan, rank, dtype);
          ASSERT_TRUE(model.ok()) << model.status();
          const ModelFootprint footprint =
              MeasureModel(spec_, plan, rank, dtype, spec_.max_context, 8, 8, *backend_);
          EXPECT_EQ(footprint.weight_bytes, backend_->bytes) << entry.path() << " rank " << rank;
          EXPECT_EQ(footprint.layers, (*model)->layers());
        }
    }
  }
}

TEST_F(EncoderLoad, RanksTogetherReadEveryTensorOnce) {
  Open("bert-classify");
  int64_t wanted = 0, stored = 0;
  const ShardPlan plan = Plan(1, 2);
  for (int rank = 0; rank < 2; ++rank) {
    ReadProgress progress;
    ASSERT_TRUE(LoadRank(*checkpoint_, plan, rank, DType::kF32, &progress).ok());
    wanted += progress.wanted_bytes;
  }
  for (const TensorInfo& tensor : checkpoint_->Tensors()) stored += tensor.stored_bytes;
  EXPECT_EQ(wanted, stored);
}

TEST_F(EncoderLoad, MissingTensorsAreNamed) {
  Open("bert-classify");
  for (const std::string name :
       {"bert.embeddings.position_embeddings.weight",
        "bert.embeddings.token_type_embeddings.weight", "bert.embeddings.LayerNorm.bias",
        "bert.encoder.layer.1.attention.self.key.weight",
        "bert.encoder.layer.0.attention.output.dense.bias",
        "bert.encoder.layer.1.output.dense.weight", "bert.encoder.layer.1.output.LayerNorm.weight",
        "classifier.bias"})
    EXPECT_THAT(ErrorWithout(name), HasSubstr(name));
  EXPECT_THAT(ErrorWithout("bert.pooler.dense.weight"), HasSubstr("pooler.dense.weight"));
  EXPECT_THAT(ErrorWithout("bert.embeddings.word_embeddings.weight"),
              HasSubstr("embeddings.word_embeddings.weight"));
  Open("distilbert-classify");
  for (const std::string name :
       {"distilbert.transformer.layer.0.attention.q_lin.weight", "pre_classifier.weight",
        "distilbert.transformer.layer.1.sa_layer_norm.bias",
        "distilbert.transformer.layer.1.ffn.lin2.bias"})
    EXPECT_THAT(ErrorWithout(name), HasSubstr(name));
}

TEST_F(EncoderLoad, WrongShapesAreNamedWithBothShapes) {
  Open("roberta-classify");
  AlteredCheckpoint altered(*checkpoint_);
  altered.Reshape("classifier.out_proj.weight", {5, 32});
  EXPECT_THAT(LoadRank(altered, Plan(1, 1), 0).status().ToString(),
              AllOf(HasSubstr("classifier.out_proj.weight is [5, 32]"), HasSubstr("[3, 32]")));
}

TEST_F(EncoderLoad, ThePoolerIsReadOnlyToClassify) {
  Open("bert-mean");
  AlteredCheckpoint altered(*checkpoint_);
  altered.Remove("pooler.dense.weight");
  EXPECT_TRUE(LoadRank(altered, Plan(1, 1), 0).ok());
}

}  // namespace
}  // namespace penstock
