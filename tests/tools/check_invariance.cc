// check_invariance MODEL: what a request gets is its own. For every cut of the model into tensor x
// pipeline ranks (8 at most), chunk size, number of steps in flight and company (alone, with 31
// others, with so little KV cache that sequences are preempted), the tokens are the same and the
// logits they were drawn from equal bit for bit those of the request run alone on the same tensor
// degree.

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "shard/base/status_macros.h"
#include "shard/checkpoint/checkpoint.h"
#include "tests/tools/driving.h"
#include "tests/tools/hashing_executor.h"
#include "tests/tools/model_loading.h"

namespace penstock {
namespace {

constexpr int kSequences = 32;
constexpr int kMaxRanks = 8;
constexpr int32_t kChunks[] = {3, 16, 256};

enum class Company { kAlone, kBatched, kPreempted };
constexpr const char* kCompanyNames[] = {"alone", "with 31 others", "preempted"};

// Request 0 has the longest prompt, which is cut into chunks. The next few grow by two KV blocks,
// so that they take blocks from one another when these are scarce. The others come and go. Half of
// all draw at random.
constexpr size_t kGrowing = 4;

std::vector<GenerateRequest> MakeRequests(int32_t vocab) {
  std::vector<GenerateRequest> requests(kSequences);
  uint32_t state = 12345;
  for (size_t i = 0; i < requests.size(); ++i) {
    GenerateRequest& request = requests[i];
    const bool growing = i > 0 && i <= kGrowing;
    const size_t length = i == 0 ? 37 : growing ? 12 + i % 4 : 3 + i % 8;
    for (size_t k = 0; k < length; ++k) {
      state = state * 1664525u + 1013904223u;
      request.prompt.push_back(
          static_cast<int32_t>((state >> 8) % static_cast<uint32_t>(vocab - 3)) + 3);
    }
    request.max_tokens = i == 0 ? 12 : growing ? 21 : 2 + static_cast<int32_t>(i % 3);
    request.sampling.seed = i + 1;
    request.sampling.temperature = i % 2 == 0 ? 0.0f : 0.8f;
  }
  return requests;
}

// What every run must reproduce.
struct Expected {
  std::vector<std::vector<int32_t>> tokens;
  LogitsHashes hashes;
};

absl::StatusOr<Expected> RunEachAlone(Executor& executor,
                                      const std::vector<GenerateRequest>& requests) {
  Expected expected;
  HashingExecutor hashing(executor, 1, 0);
  for (const GenerateRequest& request : requests) {
    RETURN_IF_ERROR(executor.Restart());
    ASSIGN_OR_RETURN(BatchResult result, RunAll({}, hashing, {request}));
    expected.tokens.push_back(std::move(result.tokens[0]));
  }
  expected.hashes = hashing.hashes();
  return expected;
}

struct Variant {
  int32_t chunk = 0;
  int32_t in_flight = 0;
  Company company = Company::kAlone;
};

struct Comparison {
  int wrong_tokens = 0;
  int wrong_logits = 0;
  int rows = 0;
  int64_t preemptions = 0;
};

// Too few for the requests of a kPreempted run to reach their ends side by side; enough for each.
int32_t ScarceBlocks(const ExecutorInfo& info) { return 160 / info.kv_block_size; }

absl::StatusOr<Comparison> RunVariant(Executor& executor, const Variant& variant,
                                      std::vector<GenerateRequest> requests,
                                      const Expected& expected) {
  RETURN_IF_ERROR(executor.Restart());
  if (variant.company == Company::kAlone) requests.resize(1);
  const bool scarce = variant.company == Company::kPreempted;
  if (scarce) requests.resize(1 + kGrowing + 3);
  HashingExecutor hashing(executor, variant.in_flight, scarce ? ScarceBlocks(executor.info()) : 0);
  SchedulerOptions options;
  options.prefill_chunk = variant.chunk;
  ASSIGN_OR_RETURN(const BatchResult result, RunAll(options, hashing, requests));

  Comparison comparison;
  comparison.preemptions = result.preemptions;
  for (size_t i = 0; i < requests.size(); ++i)
    comparison.wrong_tokens += result.tokens[i] != expected.tokens[i];
  for (const auto& [key, hash] : hashing.hashes()) {
    const auto found = expected.hashes.find(key);
    comparison.wrong_logits += found == expected.hashes.end() || found->second != hash;
    ++comparison.rows;
  }
  return comparison;
}

std::vector<Variant> Variants(int32_t max_in_flight) {
  std::vector<int32_t> depths = {1, max_in_flight};
  if (max_in_flight > 2) depths.insert(depths.begin() + 1, 2);
  std::vector<Variant> variants;
  for (const int32_t chunk : kChunks)
    for (const int32_t depth : depths)
      for (const Company company : {Company::kAlone, Company::kBatched, Company::kPreempted})
        variants.push_back({chunk, depth, company});
  return variants;
}

struct Totals {
  int combinations = 0;
  int different = 0;
  int scarce = 0;     // combinations in which sequences should be preempted
  int preempted = 0;  // those in which at least one was
  int calm_cuts = 0;  // cuts of the model without any such combination
  int64_t rows = 0;
};

void Report(int tensor, int pipeline, const Variant& variant, const Comparison& comparison) {
  std::printf(
      "tensor %d, pipeline %d, chunk %d, %d in flight, %s: %d sequences and %d of %d rows of "
      "logits "
      "differ\n",
      tensor, pipeline, variant.chunk, variant.in_flight,
      kCompanyNames[static_cast<size_t>(variant.company)], comparison.wrong_tokens,
      comparison.wrong_logits, comparison.rows);
}

absl::Status CheckCut(const Checkpoint& checkpoint, int tensor, int pipeline, Expected* expected,
                      Totals* totals) {
  CheckModelOptions options;
  options.tensor = tensor;
  options.pipeline = pipeline;
  options.max_context = 64;
  options.max_sequences = kSequences;
  const absl::Time begin = absl::Now();
  ASSIGN_OR_RETURN(const auto executor, LoadForCheck(checkpoint, options));
  const std::vector<GenerateRequest> requests = MakeRequests(executor->info().vocab);
  if (expected->tokens.empty()) {
    ASSIGN_OR_RETURN(*expected, RunEachAlone(*executor, requests));
  }
  const Totals before = *totals;
  for (const Variant& variant : Variants(executor->info().max_in_flight)) {
    ASSIGN_OR_RETURN(const Comparison comparison,
                     RunVariant(*executor, variant, requests, *expected));
    const bool same = comparison.wrong_tokens == 0 && comparison.wrong_logits == 0;
    if (!same) Report(tensor, pipeline, variant, comparison);
    ++totals->combinations;
    totals->different += !same;
    totals->scarce += variant.company == Company::kPreempted;
    totals->preempted += comparison.preemptions > 0;
    totals->rows += comparison.rows;
  }
  totals->calm_cuts += totals->preempted == before.preempted;
  std::printf(
      "tensor %d x pipeline %d: %d combinations, %d different, %d with preemption, %.1f s\n",
      tensor, pipeline, totals->combinations - before.combinations,
      totals->different - before.different, totals->preempted - before.preempted,
      absl::ToDoubleSeconds(absl::Now() - begin));
  std::fflush(stdout);
  return absl::OkStatus();
}

absl::StatusOr<bool> Run(const std::string& model) {
  ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(model));
  Totals totals;
  for (const int tensor : {1, 2, 4}) {
    Expected expected;
    for (int pipeline = 1; pipeline <= 4 && tensor * pipeline <= kMaxRanks; ++pipeline)
      RETURN_IF_ERROR(CheckCut(*checkpoint, tensor, pipeline, &expected, &totals));
  }
  const bool ok = totals.different == 0 && totals.calm_cuts == 0;
  std::printf(
      "%lld rows of logits compared by hash; sequences were preempted in %d of the %d combinations "
      "meant for it\n"
      "invariance: %d of %d combinations differ (goal 0): %s\n",
      static_cast<long long>(totals.rows), totals.preempted, totals.scarce, totals.different,
      totals.combinations, ok ? "ok" : "short");
  return ok;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: check_invariance MODEL\n");
    return 2;
  }
  const absl::StatusOr<bool> ok = penstock::Run(argv[1]);
  if (!ok.ok()) std::fprintf(stderr, "check_invariance: %s\n", ok.status().ToString().c_str());
  return ok.ok() && *ok ? 0 : 1;
}
