#include <fstream>
#include <iterator>
#include <memory>

#include "absl/strings/str_cat.h"
#include "bench/instructions/workload.h"
#include "server/text/text_stream.h"
#include "server/text/tokenizer.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

absl::StatusOr<std::string> ReadData(const std::string& name) {
  const std::string path = absl::StrCat("tests/data/", name);
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (text.empty())
    return absl::NotFoundError(absl::StrCat(path, " is missing: run it in the source folder"));
  return text;
}

struct TokenizedText {
  std::unique_ptr<Tokenizer> tokenizer;
  std::string text;
  std::vector<int32_t> ids;
};

absl::StatusOr<std::shared_ptr<TokenizedText>> Tokenize(const std::string& tokenizer) {
  auto made = std::make_shared<TokenizedText>();
  ASSIGN_OR_RETURN(const std::string json,
                   ReadData(absl::StrCat("tokenizers/", tokenizer, ".json")));
  ASSIGN_OR_RETURN(made->tokenizer, Tokenizer::FromJson(json));
  ASSIGN_OR_RETURN(made->text, ReadData("embeddings/sentences.txt"));
  made->ids = made->tokenizer->Encode(made->text, {});
  return made;
}

absl::StatusOr<Work> PrepareEncoding(const std::string& tokenizer) {
  ASSIGN_OR_RETURN(const auto made, Tokenize(tokenizer));
  return [made] {
    return made->tokenizer->Encode(made->text, {}) == made->ids
               ? absl::OkStatus()
               : absl::InternalError("the same text has other tokens");
  };
}

// Token by token, as a stream does it, with a stop string that never comes.
absl::StatusOr<Work> PrepareStream(const std::string& tokenizer) {
  ASSIGN_OR_RETURN(const auto made, Tokenize(tokenizer));
  return [made] {
    TextStream stream(*made->tokenizer, {.stop = {"\n\n\n", "The end."}});
    std::string text;
    for (const int32_t id : made->ids) text += stream.Add(id);
    text += stream.Finish();
    return text == made->text ? absl::OkStatus() : absl::InternalError("the text is another one");
  };
}

}  // namespace

std::vector<Workload> TextWorkloads() {
  std::vector<Workload> all;
  for (const char* tokenizer : {"smollm2", "llama3", "spm-legacy", "bert"})
    all.push_back({absl::StrCat("encode/", tokenizer), [=] { return PrepareEncoding(tokenizer); }});
  all.push_back({"decode/smollm2", [] { return PrepareStream("smollm2"); }});
  return all;
}

}  // namespace penstock
