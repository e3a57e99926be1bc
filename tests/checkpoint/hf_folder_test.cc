#include "shard/checkpoint/hf_folder.h"

#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/checkpoint/files.h"

namespace penstock {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string OneFloat(const std::string& name, float value) {
  return SafetensorsFile(
      "{\"" + name + R"(": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})",
      RawOne(value));
}

// A folder with two weight files a and b, each holding the tensor of its name.
class IndexTest : public testing::Test {
 protected:
  IndexTest() {
    folder_.Write("config.json", "{}");
    folder_.Write("a.safetensors", OneFloat("a", 1.0f));
    folder_.Write("b.safetensors", OneFloat("b", 2.0f));
  }

  std::string Refusal(const std::string& index) {
    folder_.Write("model.safetensors.index.json", index);
    const auto opened = Checkpoint::Open(folder_.path());
    EXPECT_FALSE(opened.ok()) << index;
    return std::string(opened.status().message());
  }

  TempFolder folder_;
};

TEST_F(IndexTest, FindsEachTensorInItsFile) {
  folder_.Write("model.safetensors.index.json",
                R"({"metadata": {"total_size": 8},
                    "weight_map": {"a": "a.safetensors", "b": "b.safetensors"}})");
  const auto opened = Checkpoint::Open(folder_.path());
  ASSERT_TRUE(opened.ok()) << opened.status();
  float value = 0;
  EXPECT_TRUE((*opened)->Read("b", {0, 1}, {0, 1}, DType::kF32, &value, nullptr).ok());
  EXPECT_EQ(value, 2.0f);
  EXPECT_TRUE((*opened)->Read("a", {0, 1}, {0, 1}, DType::kF32, &value, nullptr).ok());
  EXPECT_EQ(value, 1.0f);
}

TEST_F(IndexTest, ASingleFileGoesBeforeTheIndex) {
  folder_.Write("model.safetensors.index.json", "no JSON");
  folder_.Write("model.safetensors", OneFloat("c", 3.0f));
  const auto opened = Checkpoint::Open(folder_.path());
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_TRUE((*opened)->Find("c").ok());
}

TEST_F(IndexTest, RefusesFilesAndTensorsThatAreNotThere) {
  EXPECT_THAT(Refusal(R"({"weight_map": {"a": "c.safetensors"}})"), HasSubstr("c.safetensors"));
  EXPECT_THAT(Refusal(R"({"weight_map": {"x": "a.safetensors"}})"),
              HasSubstr("index.json: tensor x is said to be in a.safetensors, which lacks it"));
}

TEST_F(IndexTest, RefusesToLeaveTheFolder) {
  const std::string outside = std::filesystem::path(folder_.path()).filename().string();
  for (const std::string& file :
       {"../" + outside + "/a.safetensors", std::string("/etc/a.safetensors"),
        std::string("sub/a.safetensors"), std::string("..\\\\a.safetensors"), std::string(""),
        std::string(".."), std::string("a.bin"), std::string("a.safetensors\\u0000.safetensors")})
    EXPECT_THAT(Refusal(R"({"weight_map": {"a": ")" + file + R"("}})"),
                AllOf(HasSubstr("index.json: tensor a"), HasSubstr("same folder")));
}

TEST_F(IndexTest, RefusesWhatIsNoIndex) {
  EXPECT_THAT(Refusal("["), HasSubstr("index.json: not JSON"));
  EXPECT_THAT(Refusal("[1]"), HasSubstr("weight_map"));
  EXPECT_THAT(Refusal("{}"), HasSubstr("weight_map"));
  EXPECT_THAT(Refusal(R"({"weight_map": [1]})"), HasSubstr("weight_map"));
  EXPECT_THAT(Refusal(R"({"weight_map": {"a": 3}})"), HasSubstr("tensor a"));
  EXPECT_THAT(Refusal(R"({"weight_map": {"a": "a.safetensors", "a": "b.safetensors"}})"),
              HasSubstr("the key \"a\" occurs twice"));
  EXPECT_THAT(Refusal(std::string(1'000'000, '[')), HasSubstr("nested deeper than 64"));
}

TEST_F(IndexTest, ABadFileOfTheIndexIsNamed) {
  folder_.Write("b.safetensors", "short");
  EXPECT_THAT(Refusal(R"({"weight_map": {"a": "a.safetensors", "b": "b.safetensors"}})"),
              HasSubstr("/b.safetensors: "));
}

TEST(HfFolderTest, RefusesBadConfigsNamingThem) {
  const TempFolder folder;
  folder.Write("model.safetensors", OneFloat("a", 1.0f));
  EXPECT_THAT(Checkpoint::Open(folder.path()).status().message(), HasSubstr("config.json"));
  for (const std::string& text :
       {std::string(""), std::string("{"), std::string("[]"), std::string("nul"),
        std::string("{\"a\": 1, \"a\": 2}"), std::string("{\"a\": \"\xc3\x28\"}"),
        "{\"a\":" + std::string(200'000, '[') + std::string(200'000, ']') + "}"}) {
    folder.Write("config.json", text);
    const auto opened = Checkpoint::Open(folder.path());
    ASSERT_FALSE(opened.ok()) << text.substr(0, 50);
    EXPECT_THAT(opened.status().message(), HasSubstr("/config.json: ")) << text.substr(0, 50);
  }
}

TEST(HfFolderTest, SaysWhatIsMissing) {
  const TempFolder folder;
  EXPECT_EQ(Checkpoint::Open(folder.path() + "/no").status().code(), absl::StatusCode::kNotFound);
  folder.Write("config.json", "{}");
  EXPECT_THAT(Checkpoint::Open(folder.path()).status().message(),
              HasSubstr("neither model.safetensors nor"));
  std::filesystem::create_directory(folder.path() + "/model.safetensors");
  EXPECT_THAT(Checkpoint::Open(folder.path()).status().message(),
              HasSubstr("model.safetensors: not a regular file"));
}

}  // namespace
}  // namespace penstock
