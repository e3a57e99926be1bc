#include "tests/text/files.h"

#include <fstream>
#include <iterator>

#include "gtest/gtest.h"
#include "server/text/byte_alphabet.h"

namespace penstock {

std::string ReadTokenizerFile(const std::string& name) {
  std::ifstream file(std::string(PENSTOCK_TEST_DATA) + "/tokenizers/" + name, std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

nlohmann::json ReadTokenizerJson(const std::string& name) {
  return nlohmann::json::parse(ReadTokenizerFile(name));
}

std::unique_ptr<Tokenizer> LoadTokenizer(const std::string& name) {
  auto tokenizer = Tokenizer::FromJson(ReadTokenizerFile(name + ".json"));
  EXPECT_TRUE(tokenizer.ok()) << name << ": " << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

std::vector<std::string> TokenizerNames() {
  return {"gpt2",      "smollm2",     "llama3", "qwen2",   "gpt4o",  "spm-legacy",
          "spm-first", "spm-unknown", "bert",   "roberta", "unigram"};
}

std::unique_ptr<Tokenizer> ByteTokenizer(const std::vector<std::string>& specials) {
  nlohmann::json vocab = nlohmann::json::object();
  for (int byte = 0; byte < 256; ++byte) {
    vocab[ToByteAlphabet(std::string(1, static_cast<char>(byte)))] = byte;
  }
  nlohmann::json added = nlohmann::json::array();
  for (const std::string& special : specials) {
    added.push_back({{"content", special}, {"special", true}, {"normalized", false}});
  }
  const nlohmann::json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  const nlohmann::json document = {
      {"added_tokens", added},
      {"pre_tokenizer", byte_level},
      {"decoder", byte_level},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", nlohmann::json::array()}}}};
  auto tokenizer = Tokenizer::FromJson(document.dump());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

}  // namespace penstock
