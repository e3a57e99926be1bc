#include "shard/checkpoint/gguf_checkpoint.h"

#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/checkpoint/gguf_names.h"
#include "shard/checkpoint/stored_tensor.h"
#include "tests/checkpoint/files.h"

namespace penstock {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::unique_ptr<Checkpoint> OpenBytes(const TempFolder& folder, const std::string& bytes) {
  auto opened = Checkpoint::Open(folder.Write("model.gguf", bytes));
  EXPECT_TRUE(opened.ok()) << opened.status();
  return opened.ok() ? *std::move(opened) : nullptr;
}

std::string Refusal(const TempFolder& folder, const std::string& bytes) {
  const auto opened = Checkpoint::Open(folder.Write("model.gguf", bytes));
  EXPECT_FALSE(opened.ok());
  return std::string(opened.status().message());
}

std::vector<float> ReadFloats(const Checkpoint& checkpoint, const std::string& name, Range rows,
                              Range cols) {
  std::vector<float> out(static_cast<size_t>(rows.size() * cols.size()), -1.0f);
  const absl::Status status = checkpoint.Read(name, rows, cols, DType::kF32, out.data(), nullptr);
  EXPECT_TRUE(status.ok()) << status;
  return out;
}

TEST(GgufNamesTest, AreHuggingFaces) {
  EXPECT_EQ(HuggingFaceName("token_embd.weight"), "model.embed_tokens.weight");
  EXPECT_EQ(HuggingFaceName("output_norm.weight"), "model.norm.weight");
  EXPECT_EQ(HuggingFaceName("output.weight"), "lm_head.weight");
  const std::vector<std::pair<std::string, std::string>> in_block = {
      {"attn_norm.weight", "input_layernorm.weight"},
      {"attn_q.weight", "self_attn.q_proj.weight"},
      {"attn_q.bias", "self_attn.q_proj.bias"},
      {"attn_k.weight", "self_attn.k_proj.weight"},
      {"attn_v.bias", "self_attn.v_proj.bias"},
      {"attn_output.weight", "self_attn.o_proj.weight"},
      {"attn_q_norm.weight", "self_attn.q_norm.weight"},
      {"attn_k_norm.weight", "self_attn.k_norm.weight"},
      {"ffn_norm.weight", "post_attention_layernorm.weight"},
      {"ffn_gate.weight", "mlp.gate_proj.weight"},
      {"ffn_up.weight", "mlp.up_proj.weight"},
      {"ffn_down.weight", "mlp.down_proj.weight"}};
  for (const auto& [gguf, hugging_face] : in_block)
    EXPECT_EQ(HuggingFaceName("blk.12." + gguf), "model.layers.12." + hugging_face);
}

TEST(GgufNamesTest, OthersStayAsTheyAre) {
  for (const char* name :
       {"", ".", "rope_freqs.weight", "blk.", "blk.0", "blk.0.", "blk..attn_q.weight",
        "blk.x.attn_q.weight", "blk.0.attn_q", "blk.0.attn_q.scale", "blk.0.ffn_gate_inp.weight",
        "attn_q.weight", "blk.3.weight"})
    EXPECT_EQ(HuggingFaceName(name), name);
}

// Two heads of 4 rows: the file keeps rows 0 2 1 3 of each, its reader sees 0 1 2 3.
class InterleavedTest : public testing::Test {
 protected:
  InterleavedTest() {
    std::vector<float> values, bias;
    for (const float row : {0.0f, 2.0f, 1.0f, 3.0f, 4.0f, 6.0f, 5.0f, 7.0f}) {
      for (int col = 0; col < 8; ++col) values.push_back(10 * row + static_cast<float>(col));
      bias.push_back(row);
    }
    for (const char* name : {"attn_q", "attn_k", "attn_v"}) {
      const std::string tensor = std::string("blk.0.") + name;
      writer_.Tensor(tensor + ".weight", {8, 8}, 0, Raw(values));
      writer_.Tensor(tensor + ".bias", {8}, 0, Raw(bias));
    }
  }

  GgufWriter writer_;
  TempFolder folder_;
};

TEST_F(InterleavedTest, LlamasQueriesAndKeysArePutInOrder) {
  const auto checkpoint = OpenBytes(folder_, writer_.Model("llama", 2, 2, 8).Bytes());
  ASSERT_NE(checkpoint, nullptr);
  for (const char* name : {"q", "k"}) {
    const std::string tensor = std::string("model.layers.0.self_attn.") + name + "_proj";
    for (int64_t begin = 0; begin < 8; ++begin) {
      for (int64_t end = begin; end <= 8; ++end) {
        std::vector<float> weights, biases;
        for (int64_t row = begin; row < end; ++row) {
          for (int64_t col = 2; col < 5; ++col)
            weights.push_back(static_cast<float>(10 * row + col));
          biases.push_back(static_cast<float>(row));
        }
        EXPECT_EQ(ReadFloats(*checkpoint, tensor + ".weight", {begin, end}, {2, 5}), weights);
        EXPECT_EQ(ReadFloats(*checkpoint, tensor + ".bias", {0, 1}, {begin, end}), biases);
      }
    }
  }
}

TEST_F(InterleavedTest, ValuesAndOtherArchitecturesAreLeftAlone) {
  const auto llama = OpenBytes(folder_, writer_.Model("llama", 2, 2, 8).Bytes());
  ASSERT_NE(llama, nullptr);
  const std::vector<float> stored = {0, 2, 1, 3, 4, 6, 5, 7};
  EXPECT_EQ(ReadFloats(*llama, "model.layers.0.self_attn.v_proj.bias", {0, 1}, {0, 8}), stored);
  EXPECT_EQ(ReadFloats(*llama, "model.layers.0.self_attn.v_proj.weight", {1, 2}, {0, 1}),
            std::vector<float>{20});
}

TEST_F(InterleavedTest, Qwen2IsNotInterleaved) {
  const auto qwen = OpenBytes(folder_, writer_.Model("qwen2", 2, 2, 8).Bytes());
  ASSERT_NE(qwen, nullptr);
  EXPECT_EQ(ReadFloats(*qwen, "model.layers.0.self_attn.q_proj.bias", {0, 1}, {0, 8}),
            (std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7}));
}

TEST_F(InterleavedTest, RowsThatHeadsCannotShareAreRefused) {
  EXPECT_THAT(Refusal(folder_, writer_.Model("llama", 3, 3, 8).Bytes()),
              AllOf(HasSubstr("tensor model.layers.0.self_attn.q_proj.weight"),
                    HasSubstr("has 8 rows, which 3 heads")));
}

TEST(GgufCheckpointTest, AnUnknownArchitectureOpensUnderItsName) {
  const TempFolder folder;
  const auto checkpoint = OpenBytes(folder, GgufWriter()
                                                .Text("general.architecture", "gemma9")
                                                .Tensor("output_norm.weight", {1}, 0, RawOne(1.0f))
                                                .Bytes());
  ASSERT_NE(checkpoint, nullptr);
  EXPECT_EQ(checkpoint->config()["model_type"], "gemma9");
  EXPECT_EQ(checkpoint->config()["architectures"][0], "gemma9");
  EXPECT_TRUE(checkpoint->Find("output_norm.weight").ok());
}

TEST(GgufCheckpointTest, RefusesToGuessTheArchitecture) {
  const TempFolder folder;
  for (GgufWriter writer : {GgufWriter().U32("x", 1), GgufWriter().U32("general.architecture", 1),
                            GgufWriter().Text("general.architecture", ""),
                            GgufWriter().Text("general.architecture", "a\xff")})
    EXPECT_THAT(Refusal(folder, writer.Bytes()), HasSubstr("key general.architecture"));
}

std::string SplitPart(uint16_t number, uint16_t count, int32_t tensors, const std::string& name) {
  GgufWriter writer;
  if (number == 0) writer.Text("general.architecture", "odd");
  writer.Pair("split.no", 2, RawOne(number)).Pair("split.count", 2, RawOne(count));
  writer.Pair("split.tensors.count", 5, RawOne(tensors));
  return writer.Tensor(name, {1}, 0, RawOne(static_cast<float>(number))).Bytes();
}

TEST(GgufSplitTest, OpensAsOneByAnyOfItsFilesOrTheFolder) {
  const TempFolder folder;
  const std::string first = folder.Write("m-00001-of-00002.gguf", SplitPart(0, 2, 2, "a"));
  const std::string second = folder.Write("m-00002-of-00002.gguf", SplitPart(1, 2, 2, "b"));
  for (const std::string& path : {first, second, folder.path()}) {
    const auto opened = Checkpoint::Open(path);
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_EQ(ReadFloats(**opened, "a", {0, 1}, {0, 1})[0], 0.0f);
    EXPECT_EQ(ReadFloats(**opened, "b", {0, 1}, {0, 1})[0], 1.0f);
    EXPECT_EQ((*opened)->config()["model_type"], "odd");
  }
}

TEST(GgufSplitTest, RefusesPartsThatDoNotBelongTogether) {
  const TempFolder folder;
  const std::string first = folder.Write("m-00001-of-00002.gguf", SplitPart(0, 2, 3, "a"));
  EXPECT_THAT(Checkpoint::Open(first).status().message(), HasSubstr("m-00002-of-00002.gguf"));
  folder.Write("m-00002-of-00002.gguf", SplitPart(1, 2, 3, "b"));
  EXPECT_THAT(Checkpoint::Open(first).status().message(), HasSubstr("split.tensors.count"));
  folder.Write("m-00002-of-00002.gguf", SplitPart(0, 2, 3, "b"));
  EXPECT_THAT(Checkpoint::Open(first).status().message(), HasSubstr("split.no"));
  const std::string alone = folder.Write("alone.gguf", SplitPart(0, 2, 1, "a"));
  EXPECT_THAT(Checkpoint::Open(alone).status().message(), HasSubstr("split.count"));
  folder.Write("m-00001-of-00002.gguf", SplitPart(0, 2, 2, "a"));
  folder.Write("m-00002-of-00002.gguf", SplitPart(1, 2, 2, "a"));
  EXPECT_THAT(Checkpoint::Open(first).status().message(), HasSubstr("tensor a: occurs twice"));
}

TEST(GgufFolderTest, MustHoldOneModel) {
  const TempFolder folder;
  const std::string bytes = GgufWriter().Text("general.architecture", "odd").Bytes();
  folder.Write("config.json", "{}");  // some folders of GGUF files have one
  folder.Write("a.gguf", bytes);
  EXPECT_TRUE(Checkpoint::Open(folder.path()).ok());
  folder.Write("b.gguf", bytes);
  EXPECT_THAT(Checkpoint::Open(folder.path()).status().message(),
              AllOf(HasSubstr("2 GGUF models"), HasSubstr("b.gguf")));
}

}  // namespace
}  // namespace penstock
