// check_reference MODEL.gguf DATA [LOGITS]: compares Penstock with the reference implementation's
// committed output (tests/golden/make_reference.py). Float32 weights: the same greedy tokens.
// Float16 weights, fed the reference's tokens: how often the most likely token agrees, and how far
// the distributions are apart. LOGITS: also writes the float16 run's logits, for a comparison with
// all of the reference's.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "shard/base/status_macros.h"
#include "shard/checkpoint/checkpoint.h"
#include "tests/tools/driving.h"
#include "tests/tools/model_loading.h"

namespace penstock {
namespace {

constexpr float kTieMargin = 1e-3f;
constexpr int kAllowedTies = 3;
constexpr double kAgreementGoal = 0.995;
constexpr size_t kTop = 32;  // entries per step in the .top file

struct Sequence {
  std::vector<int32_t> prompt;
  std::vector<int32_t> tokens;  // the reference's greedy continuation
  std::vector<float> margins;   // of each token's logit over the runner-up's
};

struct TopEntry {
  int32_t id = 0;
  float logprob = 0;
};

std::vector<Sequence> ReadSequences(const std::string& path) {
  std::ifstream file(path);
  std::vector<Sequence> sequences;
  const nlohmann::json data = nlohmann::json::parse(file);
  for (const auto& entry : data.at("sequences"))
    sequences.push_back({entry.at("prompt"), entry.at("tokens"), entry.at("margins")});
  return sequences;
}

// The reference's most likely tokens, kTop for each step of each sequence.
std::vector<TopEntry> ReadTop(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<TopEntry> entries(bytes.size() / 6);
  for (size_t i = 0; i < entries.size(); ++i) {
    uint16_t id = 0;
    std::memcpy(&id, bytes.data() + i * 6, 2);
    std::memcpy(&entries[i].logprob, bytes.data() + i * 6 + 2, 4);
    entries[i].id = id;
  }
  return entries;
}

GenerateRequest Greedy(const Sequence& sequence, size_t known) {
  GenerateRequest request;
  request.prompt = sequence.prompt;
  request.generated.assign(sequence.tokens.begin(),
                           sequence.tokens.begin() + static_cast<std::ptrdiff_t>(known));
  request.max_tokens = static_cast<int32_t>(sequence.tokens.size());
  request.sampling.temperature = 0;
  return request;
}

struct GreedyResult {
  int compared = 0;
  int ties = 0;
  int wrong = 0;
};

// Where a sequence leaves the reference's path it is counted and set back onto it, so that every
// token is compared.
absl::StatusOr<GreedyResult> CompareGreedy(Executor& executor,
                                           const std::vector<Sequence>& sequences) {
  GreedyResult result;
  std::vector<size_t> known(sequences.size(), 0), open(sequences.size());
  for (size_t i = 0; i < open.size(); ++i) open[i] = i;
  while (!open.empty()) {
    std::vector<GenerateRequest> requests;
    for (size_t i : open) requests.push_back(Greedy(sequences[i], known[i]));
    ASSIGN_OR_RETURN(const BatchResult batch, RunAll({}, executor, requests));
    std::vector<size_t> left;
    for (size_t k = 0; k < open.size(); ++k) {
      const Sequence& wanted = sequences[open[k]];
      size_t& at = known[open[k]];
      for (const int32_t token : batch.tokens[k]) {
        ++result.compared;
        if (token == wanted.tokens[at++]) continue;
        const bool tie = wanted.margins[at - 1] < kTieMargin;
        ++(tie ? result.ties : result.wrong);
        std::printf("sequence %zu, token %zu: %d instead of %d (margin %.5f)\n", open[k], at - 1,
                    token, wanted.tokens[at - 1], wanted.margins[at - 1]);
        if (at < wanted.tokens.size()) left.push_back(open[k]);
        break;
      }
    }
    open = std::move(left);
  }
  return result;
}

// One prefill of prompt + tokens; rows of logits for every token, [tokens, vocab].
absl::StatusOr<std::vector<float>> TeacherForced(Executor& executor, const Sequence& sequence,
                                                 int64_t step) {
  StepBatch batch;
  batch.step = step;
  batch.epoch = executor.epoch();
  batch.tokens = sequence.prompt;
  batch.tokens.insert(batch.tokens.end(), sequence.tokens.begin(), sequence.tokens.end() - 1);
  const auto length = static_cast<int32_t>(batch.tokens.size());
  const auto prompt = static_cast<int32_t>(sequence.prompt.size());
  const int32_t block_size = executor.info().kv_block_size;
  for (int32_t i = 0; i < length; ++i) {
    batch.positions.push_back(i);
    batch.slots.push_back(i);  // blocks 0, 1, ...: slot and position agree
    if (i % block_size == 0) batch.blocks.push_back(i / block_size);
  }
  batch.seq_begin = {0, length};
  batch.context_lens = {length};
  batch.block_begin = {0, static_cast<int32_t>(batch.blocks.size())};
  batch.assignments.resize(1);
  batch.assignments[0].params.temperature = 0;
  for (int32_t row = prompt - 1; row < length; ++row)
    batch.samples.push_back({.row = row, .slot = 0, .position = row + 1, .mask_stops = false});
  batch.return_logits = true;
  batch.plan_hash = HashPlan(batch);
  executor.Launch(std::move(batch));
  ASSIGN_OR_RETURN(StepResult result, executor.Wait());
  return std::move(result.logits);
}

double LogSumExp(std::span<const float> row) {
  const double top = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const float value : row) sum += std::exp(value - top);
  return top + std::log(sum);
}

// KL(reference || row) over the reference's most likely tokens and one class for all the others, a
// lower bound that is close when they carry the mass.
double Divergence(std::span<const TopEntry> top, std::span<const float> row) {
  const double normalizer = LogSumExp(row);
  double divergence = 0, left_p = 1, left_q = 1;
  for (const TopEntry& entry : top) {
    const double p = std::exp(double{entry.logprob});
    const double log_q = row[static_cast<size_t>(entry.id)] - normalizer;
    divergence += p * (entry.logprob - log_q);
    left_p -= p;
    left_q -= std::exp(log_q);
  }
  if (left_p > 1e-6 && left_q > 1e-6) divergence += left_p * std::log(left_p / left_q);
  return divergence;
}

struct ForcedResult {
  int steps = 0;
  int agreed = 0;
  double divergence = 0;  // summed
};

absl::StatusOr<ForcedResult> CompareForced(Executor& executor,
                                           const std::vector<Sequence>& sequences,
                                           std::span<const TopEntry> top, std::ostream* logits) {
  ForcedResult result;
  const auto vocab = static_cast<size_t>(executor.info().vocab);
  int64_t step = 0;
  for (const Sequence& sequence : sequences) {
    ASSIGN_OR_RETURN(const std::vector<float> rows, TeacherForced(executor, sequence, step++));
    if (logits != nullptr)
      logits->write(reinterpret_cast<const char*>(rows.data()),
                    static_cast<std::streamsize>(rows.size() * sizeof(float)));
    for (size_t i = 0; i < sequence.tokens.size(); ++i, ++result.steps) {
      const auto row = std::span(rows).subspan(i * vocab, vocab);
      const auto best = std::max_element(row.begin(), row.end()) - row.begin();
      result.agreed += best == sequence.tokens[i];
      result.divergence +=
          Divergence(top.subspan(static_cast<size_t>(result.steps) * kTop, kTop), row);
    }
  }
  return result;
}

absl::StatusOr<std::unique_ptr<Executor>> Load(const Checkpoint& checkpoint, DType dtype) {
  CheckModelOptions options;
  options.dtype = dtype;
  options.max_context = 256;
  options.max_sequences = 64;  // also the most rows that are sampled in one step
  return LoadForCheck(checkpoint, options);
}

absl::StatusOr<bool> Run(const std::string& model, const std::string& data,
                         const std::string& logits_path) {
  ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(model));
  const std::vector<Sequence> sequences = ReadSequences(data + "/smollm2.json");
  const std::vector<TopEntry> top = ReadTop(data + "/smollm2.top");

  ASSIGN_OR_RETURN(std::unique_ptr<Executor> executor, Load(*checkpoint, DType::kF32));
  ASSIGN_OR_RETURN(const GreedyResult greedy, CompareGreedy(*executor, sequences));
  std::printf("float32 weights: %d greedy tokens, %d other than the reference's, %d of them ties\n",
              greedy.compared, greedy.ties + greedy.wrong, greedy.ties);

  executor.reset();
  ASSIGN_OR_RETURN(executor, Load(*checkpoint, DType::kF16));
  std::ofstream logits;
  if (!logits_path.empty()) logits.open(logits_path, std::ios::binary);
  ASSIGN_OR_RETURN(
      const ForcedResult forced,
      CompareForced(*executor, sequences, top, logits_path.empty() ? nullptr : &logits));
  const double agreement = double(forced.agreed) / forced.steps;
  std::printf("float16 weights: top-1 agreement %.2f %% of %d, mean KL %.2e\n", 100 * agreement,
              forced.steps, forced.divergence / forced.steps);

  const bool ok = greedy.wrong == 0 && greedy.ties <= kAllowedTies && agreement >= kAgreementGoal;
  std::printf(
      "reference: %d wrong, %d ties of %d tokens; agreement %.2f %% "
      "(goal 0 wrong, at most %d ties, at least %.1f %%): %s\n",
      greedy.wrong, greedy.ties, greedy.compared, 100 * agreement, kAllowedTies,
      100 * kAgreementGoal, ok ? "ok" : "short");
  return ok;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    std::fprintf(stderr, "usage: check_reference MODEL.gguf DATA [LOGITS]\n");
    return 2;
  }
  const absl::StatusOr<bool> ok = penstock::Run(argv[1], argv[2], argc == 4 ? argv[3] : "");
  if (!ok.ok()) std::fprintf(stderr, "check_reference: %s\n", ok.status().ToString().c_str());
  return ok.ok() && *ok ? 0 : 1;
}
