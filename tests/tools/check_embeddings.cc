// check_embeddings FOLDER REFERENCE.json: compares an encoder's embeddings with the reference
// implementation's (tests/golden/make_embedding_reference.py): each text alone, all of them in one
// step, and on two tensor ranks and two stages. Then how many tokens a second all of them take, in
// steps that are as full as can be.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "shard/base/status_macros.h"
#include "shard/checkpoint/checkpoint.h"
#include "tests/tools/model_loading.h"

namespace penstock {
namespace {

constexpr double kCosineGoal = 0.9999;

struct Entry {
  std::vector<int32_t> ids;
  std::vector<double> embedding;
};

std::vector<Entry> ReadEntries(const std::string& path) {
  std::ifstream file(path);
  const nlohmann::json data = nlohmann::json::parse(file);
  std::vector<Entry> entries;
  for (const auto& entry : data.at("entries"))
    entries.push_back({entry.at("ids"), entry.at("embedding")});
  return entries;
}

void Append(const std::vector<int32_t>& ids, StepBatch* batch) {
  if (batch->seq_begin.empty()) batch->seq_begin = {0};
  const auto length = static_cast<int32_t>(ids.size());
  batch->kind = StepKind::kEncode;
  batch->tokens.insert(batch->tokens.end(), ids.begin(), ids.end());
  for (int32_t i = 0; i < length; ++i) batch->positions.push_back(i);
  batch->seq_begin.push_back(batch->seq_begin.back() + length);
  batch->context_lens.push_back(length);
}

// Runs steps one after the other, counted from 0.
class StepRunner {
 public:
  explicit StepRunner(std::unique_ptr<Executor> executor) : executor_(std::move(executor)) {}
  const ExecutorInfo& info() const { return executor_->info(); }

  absl::StatusOr<std::vector<float>> Run(StepBatch batch) {
    batch.step = step_++;
    batch.epoch = executor_->epoch();
    executor_->Launch(std::move(batch));
    ASSIGN_OR_RETURN(StepResult result, executor_->Wait());
    return std::move(result.outputs);
  }

 private:
  const std::unique_ptr<Executor> executor_;
  int64_t step_ = 0;
};

double Cosine(const float* a, const std::vector<double>& b) {
  double dot = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    dot += a[i] * b[i];
    aa += double{a[i]} * a[i];
    bb += b[i] * b[i];
  }
  return dot / std::sqrt(aa * bb);
}

struct Comparison {
  double cosine = 1;   // the worst
  double largest = 0;  // difference of a number
  bool same_bits = true;
};

absl::StatusOr<Comparison> Compare(StepRunner& encoder, const std::vector<Entry>& entries) {
  StepBatch all;
  for (const Entry& entry : entries) Append(entry.ids, &all);
  ASSIGN_OR_RETURN(const std::vector<float> together, encoder.Run(std::move(all)));
  Comparison result;
  for (size_t i = 0; i < entries.size(); ++i) {
    StepBatch one;
    Append(entries[i].ids, &one);
    ASSIGN_OR_RETURN(const std::vector<float> alone, encoder.Run(std::move(one)));
    const std::vector<double>& wanted = entries[i].embedding;
    if (alone.size() != wanted.size())
      return absl::InvalidArgumentError("the reference is of another width");
    result.cosine = std::min(result.cosine, Cosine(alone.data(), wanted));
    for (size_t k = 0; k < wanted.size(); ++k)
      result.largest = std::max(result.largest, std::abs(alone[k] - wanted[k]));
    const auto row = together.begin() + static_cast<std::ptrdiff_t>(i * wanted.size());
    result.same_bits = result.same_bits && std::equal(alone.begin(), alone.end(), row);
  }
  return result;
}

// Of full steps of the texts in turn; the best of a few, since others use the machine too.
absl::Status PrintSpeed(StepRunner& encoder, const std::vector<Entry>& entries) {
  StepBatch batch;
  for (size_t i = 0; batch.seqs() < encoder.info().max_sequences; ++i) {
    const std::vector<int32_t>& ids = entries[i % entries.size()].ids;
    if (std::ssize(batch.tokens) + std::ssize(ids) > encoder.info().max_step_tokens) break;
    Append(ids, &batch);
  }
  const auto tokens = static_cast<double>(batch.tokens.size());
  double best = 0, best_of_cpu = 0;
  for (int round = 0; round < 6; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    const std::clock_t cpu = std::clock();
    RETURN_IF_ERROR(encoder.Run(batch).status());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best = std::max(best, tokens / took.count());
    best_of_cpu = std::max(best_of_cpu, tokens * CLOCKS_PER_SEC / double(std::clock() - cpu));
  }
  std::printf("steps of %.0f tokens of %d texts: %.0f tokens/s, %.0f per second of one processor\n",
              tokens, static_cast<int>(batch.seqs()), best, best_of_cpu);
  return absl::OkStatus();
}

absl::StatusOr<bool> Run(const std::string& folder, const std::string& reference) {
  ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(folder));
  const std::vector<Entry> entries = ReadEntries(reference);
  double worst = 1;
  bool same_bits = true;
  for (const auto& [tensor, pipeline] : {std::pair{1, 1}, {2, 1}, {1, 2}}) {
    CheckModelOptions options;
    options.tensor = tensor;
    options.pipeline = pipeline;
    options.dtype = DType::kF32;
    ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor, LoadForCheck(*checkpoint, options));
    StepRunner encoder(std::move(executor));
    ASSIGN_OR_RETURN(const Comparison result, Compare(encoder, entries));
    std::printf("tensor %d x pipeline %d: worst cosine 1 - %.1e, largest difference %.1e\n", tensor,
                pipeline, 1 - result.cosine, result.largest);
    worst = std::min(worst, result.cosine);
    same_bits = same_bits && result.same_bits;
    if (tensor * pipeline == 1) RETURN_IF_ERROR(PrintSpeed(encoder, entries));
  }
  const bool ok = worst >= kCosineGoal && same_bits;
  std::printf(
      "embeddings: worst cosine %.7f, alone and together %s (goal %.4f, the same bits): %s\n",
      worst, same_bits ? "the same bits" : "different", kCosineGoal, ok ? "ok" : "short");
  return ok;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: check_embeddings FOLDER REFERENCE.json\n");
    return 2;
  }
  const absl::StatusOr<bool> ok = penstock::Run(argv[1], argv[2]);
  if (!ok.ok()) std::fprintf(stderr, "check_embeddings: %s\n", ok.status().ToString().c_str());
  return ok.ok() && *ok ? 0 : 1;
}
