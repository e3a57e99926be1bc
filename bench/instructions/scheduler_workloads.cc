#include <memory>

#include "absl/strings/str_cat.h"
#include "bench/instructions/workload.h"
#include "bench/support/null_executor.h"
#include "bench/support/null_observer.h"
#include "scheduler/scheduler.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

constexpr int32_t kContext = 1024, kStepTokens = 4096;
constexpr int kTurns = 32;  // every sequence begins a KV block in two of them

SchedulerOptions Options(int32_t sequences) {
  SchedulerOptions options;
  options.max_sequences = sequences;
  options.prefill_chunk = kStepTokens;
  options.max_decode_delay = absl::ZeroDuration();  // which is compared with times measured
  return options;
}

// A scheduler with sequences that decode.
class Decoding {
 public:
  explicit Decoding(int32_t sequences)
      : executor_({.stages = 1,
                   .max_in_flight = 2,
                   .kv_blocks = 1 << 15,
                   .kv_block_size = 16,
                   .max_step_tokens = kStepTokens,
                   .max_sequences = 256,
                   .max_context = 4096,
                   .vocab = 50000}),
        scheduler_(Options(sequences), executor_, observer_) {}

  absl::Status Start(int32_t sequences) {
    for (int32_t key = 0; key < sequences; ++key) {
      GenerateRequest request;
      request.prompt.assign(kContext, key);  // shares nothing with the others
      request.max_tokens = kContext;
      streams_.push_back(std::make_shared<TokenStream>(nullptr));
      RETURN_IF_ERROR(scheduler_.Submit(std::move(request), streams_.back()));
    }
    const int32_t prompts = sequences * kContext / kStepTokens;  // steps
    for (int32_t turn = 0; turn < 2 * prompts && streams_.back()->unread() == 0; ++turn)
      scheduler_.Step();
    for (int turn = 0; turn < 4; ++turn) scheduler_.Step();  // until the last ones are in step
    ReadAll();
    return absl::OkStatus();
  }

  // Every sequence draws a token in each turn.
  absl::Status Run() {
    for (int turn = 0; turn < kTurns; ++turn) scheduler_.Step();
    const int64_t read = ReadAll(), expected = int64_t{kTurns} * std::ssize(streams_);
    if (read == expected) return absl::OkStatus();
    return absl::InternalError(absl::StrCat(read, " tokens were drawn, not ", expected));
  }

 private:
  int64_t ReadAll() {
    int64_t tokens = 0;
    for (const auto& stream : streams_) tokens += std::ssize(stream->Read().tokens);
    return tokens;
  }

  NullExecutor executor_;
  NullObserver observer_;
  Scheduler scheduler_;
  std::vector<std::shared_ptr<TokenStream>> streams_;
};

absl::StatusOr<Work> PrepareDecoding(int32_t sequences) {
  auto decoding = std::make_shared<Decoding>(sequences);
  RETURN_IF_ERROR(decoding->Start(sequences));
  return [decoding] { return decoding->Run(); };
}

}  // namespace

std::vector<Workload> SchedulerWorkloads() {
  std::vector<Workload> all;
  for (const int32_t sequences : {16, 256})
    all.push_back(
        {absl::StrCat("scheduler/decode-", sequences), [=] { return PrepareDecoding(sequences); }});
  return all;
}

}  // namespace penstock
