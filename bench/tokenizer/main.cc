// How fast a tokenizer encodes on one core: tokenizer_bench PATH TEXT_FILE
// PATH is a tokenizer.json, a .gguf file or a checkpoint folder. Prints the time to load, then MB/s
// (10^6 bytes of text) as the median of several rounds over the file, cut into 4 KB prompts and as
// one.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "server/text/tokenizer.h"
#include "shard/base/status_macros.h"
#include "shard/checkpoint/checkpoint.h"

namespace penstock {
namespace {

constexpr int kRounds = 5;
constexpr size_t kPromptBytes = 4096;

double Now() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Open(const std::string& path) {
  if (absl::EndsWith(path, ".json")) return Tokenizer::FromJson(ReadFile(path));
  ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(path));
  return Tokenizer::Load(*checkpoint);
}

// Encodes `text` in parts of `part` bytes; seconds per round, the median.
double Measure(const Tokenizer& tokenizer, absl::string_view text, size_t part, size_t* tokens) {
  std::vector<double> seconds;
  for (int round = 0; round < kRounds; ++round) {
    *tokens = 0;
    const double begin = Now();
    for (size_t at = 0; at < text.size(); at += part) {
      *tokens += tokenizer.Encode(text.substr(at, part), {}).size();
    }
    seconds.push_back(Now() - begin);
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRounds / 2, seconds.end());
  return seconds[kRounds / 2];
}

int Run(const std::string& path, const std::string& text_path) {
  const double begin = Now();
  const auto tokenizer = Open(path);
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.status() << "\n";
    return 1;
  }
  std::printf("load %.3f s, vocabulary %d\n", Now() - begin, (*tokenizer)->vocab_size());
  const std::string text = ReadFile(text_path);
  if (text.empty()) {
    std::cerr << text_path << " is empty or missing\n";
    return 1;
  }
  for (const size_t part : {kPromptBytes, text.size()}) {
    size_t tokens = 0;
    const double seconds = Measure(**tokenizer, text, part, &tokens);
    std::printf("%9zu B prompts: %.2f MB/s, %.2f M tokens/s\n", part,
                static_cast<double>(text.size()) / seconds / 1e6,
                static_cast<double>(tokens) / seconds / 1e6);
  }
  return 0;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: tokenizer_bench PATH TEXT_FILE\n";
    return 2;
  }
  return penstock::Run(argv[1], argv[2]);
}
