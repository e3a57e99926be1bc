#include "cli/one_shot_model.h"

#include <fstream>
#include <iterator>
#include <string>

#include "gtest/gtest.h"

namespace penstock {
namespace {

TEST(OneShotModelTest, AContextWithoutRoomForTextIsRefusedWithTheSpecialTokens) {
  std::ifstream file(PENSTOCK_TEST_DATA "/tokenizers/bert.json");
  const auto tokenizer = Tokenizer::FromJson(std::string{std::istreambuf_iterator<char>(file), {}});
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_TRUE(CheckRoomForText(3, **tokenizer).ok());
  for (int32_t context : {1, 2}) {
    const std::string message(CheckRoomForText(context, **tokenizer).message());
    EXPECT_NE(message.find("--max-context is " + std::to_string(context)), std::string::npos);
    EXPECT_NE(message.find("[CLS], [SEP]"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace penstock
