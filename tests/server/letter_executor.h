#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "shard/api/executor.h"
#include "shard/base/mutex.h"
#include "tests/server/byte_tokenizer.h"

namespace penstock {

// An executor without a model: the alphabet. A letter is followed by the next one, 'z' by 'a' (so
// lower case never ends), 'Z' by the end token, and the bytes of U+4E16 by one another in a circle.
// So what a sequence says depends on its last token alone.
class LetterExecutor final : public Executor {
 public:
  struct Options {
    int32_t max_sequences = 8;
    int32_t kv_blocks = 64;
    int32_t max_context = 128;
    int32_t vocab = 300;  // padded beyond the tokenizer's
  };
  LetterExecutor() : LetterExecutor(Options()) {}
  explicit LetterExecutor(const Options& options) {
    info_.stages = 1;
    info_.max_in_flight = 2;
    info_.kv_blocks = options.kv_blocks;
    info_.kv_block_size = 16;
    info_.max_step_tokens = 256;
    info_.max_sequences = options.max_sequences;
    info_.max_context = options.max_context;
    info_.vocab = options.vocab;
  }

  static int32_t Next(int32_t token) {
    if (token == 'z') return 'a';
    if (token == 'Z') return ByteTokenizer::kEos;
    if (token == 0xE4) return 0xB8;
    if (token == 0xB8) return 0x96;
    if (token == 0x96) return 0xE4;
    return token < 255 ? token + 1 : 'a';
  }

  // Test controls, thread-safe.
  void set_step_delay(absl::Duration delay) { delay_ns_.store(absl::ToInt64Nanoseconds(delay)); }
  void Hold() ABSL_LOCKS_EXCLUDED(mutex_) { SetHeld(true); }  // Wait() blocks until Release
  void Release() ABSL_LOCKS_EXCLUDED(mutex_) { SetHeld(false); }
  // From now on steps and restarts fail: the executor is lost.
  void Lose(absl::Status why) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    lost_ = why;
    error_ = std::move(why);
  }
  std::vector<SlotAssignment> assignments() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return assignments_;
  }

  const ExecutorInfo& info() const override { return info_; }
  void Launch(StepBatch batch) override ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    assignments_.insert(assignments_.end(), batch.assignments.begin(), batch.assignments.end());
    steps_.push_back(std::move(batch));
  }
  absl::StatusOr<StepResult> Wait() override ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    const auto over = [this] {
      mutex_.AssertHeld();
      return !error_.ok();
    };
    mutex_.AwaitFor(over, std::chrono::nanoseconds(delay_ns_.load()));
    mutex_.Await([this] {
      mutex_.AssertHeld();
      return !held_ || !error_.ok();
    });
    if (!error_.ok()) return error_;
    StepBatch batch = std::move(steps_.front());
    steps_.pop_front();
    return Compute(batch);
  }
  void Abort(absl::Status why) override ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (error_.ok()) error_ = std::move(why);
  }
  absl::Status Restart() override ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (!lost_.ok()) return lost_;
    steps_.clear();
    slots_.clear();
    error_ = absl::OkStatus();
    ++epoch_;
    return absl::OkStatus();
  }
  uint64_t epoch() const override { return epoch_.load(); }
  PipelineStats Stats() const override { return {10, 6, {{4, 1}}}; }

 private:
  void SetHeld(bool held) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    held_ = held;
  }
  StepResult Compute(const StepBatch& batch) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const SlotAssignment& assignment : batch.assignments)
      slots_[assignment.slot] = assignment.params;
    StepResult result;
    result.step = batch.step;
    for (const SampleRow& sample : batch.samples) {
      SampledToken token;
      token.token = Next(batch.tokens[static_cast<size_t>(sample.row)]);
      const SamplingParams& params = slots_[sample.slot];
      if (sample.mask_stops)
        for (int32_t stop : params.masked_until_min)
          if (stop == token.token) token.token = 'a';
      if (params.logprobs >= 0) token.logprob = -0.5f;
      for (int i = 0; i < params.logprobs; ++i) token.top.push_back({0xE4 + i, -1.0f - i});
      result.samples.push_back(std::move(token));
    }
    return result;
  }

  ExecutorInfo info_;
  std::atomic<int64_t> delay_ns_{0};
  std::atomic<uint64_t> epoch_{1};
  Mutex mutex_;
  std::deque<StepBatch> steps_ ABSL_GUARDED_BY(mutex_);
  std::map<int32_t, SamplingParams> slots_ ABSL_GUARDED_BY(mutex_);
  std::vector<SlotAssignment> assignments_ ABSL_GUARDED_BY(mutex_);
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace penstock
