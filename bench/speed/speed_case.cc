#include "bench/speed/speed_case.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/engine/drive.h"
#include "bench/engine/stage_use.h"
#include "bench/engine/workloads.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

constexpr size_t kDroppedSteps = 4;  // at each end of a run of decode steps
constexpr double kLeastSeconds = 1;  // of a trial

absl::StatusOr<SpeedCase> ParseEncodeCase(const std::string& text) {
  SpeedCase what{.kind = SpeedCase::Kind::kEncode, .name = text};
  std::ifstream file(text.substr(text.find(':') + 1));
  std::string line;
  while (std::getline(file, line)) {
    std::vector<int32_t>& ids = what.texts.emplace_back();
    for (const absl::string_view word : absl::StrSplit(line, ' ', absl::SkipEmpty()))
      if (!absl::SimpleAtoi(word, &ids.emplace_back()))
        return absl::InvalidArgumentError(absl::StrCat(text, ": \"", word, "\" is no token id"));
    what.context = std::max(what.context, static_cast<int32_t>(std::ssize(ids)));
  }
  if (what.texts.empty()) return absl::InvalidArgumentError(absl::StrCat(text, ": no texts"));
  return what;
}

// As many of the texts from `from` on as a step has room for.
StepBatch MakeEncodeStep(const SpeedCase& what, size_t from, const ExecutorInfo& info) {
  StepBatch step;
  step.kind = StepKind::kEncode;
  step.seq_begin = {0};
  for (size_t i = from; i < what.texts.size() && step.seqs() < info.max_sequences; ++i) {
    const std::vector<int32_t>& text = what.texts[i];
    if (std::ssize(step.tokens) + std::ssize(text) > info.max_step_tokens) break;
    step.tokens.insert(step.tokens.end(), text.begin(), text.end());
    for (int32_t p = 0; p < std::ssize(text); ++p) step.positions.push_back(p);
    step.seq_begin.push_back(static_cast<int32_t>(std::ssize(step.tokens)));
    step.context_lens.push_back(static_cast<int32_t>(std::ssize(text)));
  }
  return step;
}

}  // namespace

absl::StatusOr<SpeedCase> ParseSpeedCase(const std::string& text) {
  if (absl::StartsWith(text, "encode:")) return ParseEncodeCase(text);
  const std::vector<std::string> fields = absl::StrSplit(text, ':');
  SpeedCase what{.name = text};
  std::vector<int32_t*> numbers;
  if (fields[0] == "decode") {
    numbers = {&what.sequences, &what.context, &what.tokens};
  } else if (fields[0] == "prefill") {
    what.kind = SpeedCase::Kind::kPrefill;
    numbers = {&what.context};
  } else if (fields[0] == "attention") {
    what.kind = SpeedCase::Kind::kAttention;
    numbers = {&what.sequences, &what.context};
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "there is no case \"", text, "\"; there are decode, prefill, attention and encode"));
  }
  const size_t least = what.kind == SpeedCase::Kind::kDecode ? 2 : numbers.size();
  bool sound = fields.size() > least && fields.size() <= numbers.size() + 1;
  for (size_t i = 1; sound && i < fields.size(); ++i)
    sound = absl::SimpleAtoi(fields[i], numbers[i - 1]) && *numbers[i - 1] > 0;
  if (!sound) return absl::InvalidArgumentError(absl::StrCat("\"", text, "\": bad numbers"));
  return what;
}

double LayerWeights(const ModelSpec& spec) {
  const double hidden = spec.hidden, q = double{1} * spec.heads * spec.head_dim;
  const double kv = double{1} * spec.kv_heads * spec.head_dim;
  return spec.layers * (hidden * (2 * q + 2 * kv) + 3 * hidden * spec.intermediate);
}

double StepWeights(const ModelSpec& spec) {
  return LayerWeights(spec) + double{1} * spec.vocab * spec.hidden;
}

absl::StatusOr<SpeedTrial> RunDecodeCase(Engine& engine, DType dtype, const SpeedCase& what,
                                         uint64_t seed) {
  std::vector<Arrival> arrivals;
  for (int32_t i = 0; i < what.sequences; ++i) {
    const uint64_t own = seed * 1000 + static_cast<uint64_t>(i);
    arrivals.push_back({MakeRequest(own, engine.spec.vocab, what.context, what.tokens)});
  }
  ASSIGN_OR_RETURN(const RunLog log, Drive(BenchOptions(), *engine.executor, arrivals));
  const int32_t stages = engine.plan.pipeline();
  const StepRange steady = FindSteadyDecode(log.steps, what.sequences / stages);
  if (steady.end - steady.begin < 3 * kDroppedSteps)
    return absl::InternalError(absl::StrCat(what.name, ": only ", steady.end - steady.begin,
                                            " steps in which all decode"));
  const size_t first = steady.begin + kDroppedSteps, last = steady.end - kDroppedSteps;
  const auto done = [&](size_t step) { return log.steps[step].stages.back().end; };
  const double steps = static_cast<double>(last - first);
  const double seconds = Window{done(first), done(last)}.seconds();
  const double context = what.context + 0.5 * what.tokens;
  const double kv = 2.0 * engine.spec.layers * engine.spec.kv_heads * engine.spec.head_dim *
                    context * what.sequences / stages;
  SpeedTrial trial;
  trial.tokens = steps * what.sequences / stages / seconds;
  trial.bytes =
      (StepWeights(engine.spec) + kv) * static_cast<double>(SizeOf(dtype)) * steps / seconds;
  return trial;
}

absl::StatusOr<SpeedTrial> RunPrefillCase(Engine& engine, const SpeedCase& what, uint64_t seed) {
  double seconds = 0, tokens = 0;
  for (uint64_t i = 0; seconds < kLeastSeconds; ++i) {
    const Arrival arrival{MakeRequest(seed * 1000 + i, engine.spec.vocab, what.context, 1)};
    ASSIGN_OR_RETURN(const RunLog log, Drive(BenchOptions(), *engine.executor, {arrival}));
    seconds += WindowOf(log.steps).seconds();
    tokens += what.context;
  }
  return SpeedTrial{.tokens = tokens / seconds,
                    .flops = 2 * LayerWeights(engine.spec) * tokens / seconds};
}

absl::StatusOr<SpeedTrial> RunEncodeCase(Engine& engine, const SpeedCase& what) {
  RETURN_IF_ERROR(engine.executor->Restart());
  const auto begin = std::chrono::steady_clock::now();
  double texts = 0, tokens = 0, seconds = 0;
  for (int64_t number = 0; seconds < kLeastSeconds;) {
    for (size_t at = 0; at < what.texts.size(); ++number) {
      StepBatch step = MakeEncodeStep(what, at, engine.executor->info());
      step.step = number;
      step.epoch = engine.executor->epoch();
      at += static_cast<size_t>(step.seqs());
      tokens += static_cast<double>(step.tokens.size());
      engine.executor->Launch(std::move(step));
      RETURN_IF_ERROR(engine.executor->Wait().status());
    }
    texts += static_cast<double>(what.texts.size());
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  return SpeedTrial{.tokens = tokens / seconds, .texts = texts / seconds};
}

}  // namespace penstock
