#include "server/sample.h"

#include <algorithm>
#include <utility>

#include "absl/time/time.h"

namespace penstock {
namespace {

double SecondsBetween(absl::Time begin, absl::Time end) {
  if (begin == absl::InfinitePast() || end == absl::InfinitePast()) return 0;
  return absl::ToDoubleSeconds(end - begin);
}

void Fill(const SequenceTimes& times, v1::Timings* out) {
  out->set_queue_seconds(SecondsBetween(times.arrival, times.first_scheduled));
  out->set_time_to_first_token_seconds(SecondsBetween(times.arrival, times.first_token));
  out->set_total_seconds(SecondsBetween(times.arrival, times.last_token));
  out->set_preemptions(static_cast<uint32_t>(times.preemptions));
}

}  // namespace

Sample::Sample(const GenerationTask& task, int32_t index, const Tokenizer& tokenizer,
               std::shared_ptr<TokenStream> stream)
    : tokenizer_(tokenizer),
      stream_(std::move(stream)),
      stop_tokens_(task.sequence.stop_tokens),
      include_stop_(task.text.include_stop),
      logprobs_(task.sequence.sampling.logprobs >= 0),
      index_(index),
      prompt_tokens_(static_cast<uint32_t>(task.sequence.prompt.size())),
      seed_(task.sequence.sampling.seed) {
  if (!task.token_ids_only) text_.emplace(tokenizer, task.text);
}

bool Sample::IsStopToken(int32_t token) const {
  return std::binary_search(stop_tokens_.begin(), stop_tokens_.end(), token);
}

bool Sample::Resume(const GenerationTask& task) {
  for (int32_t token : task.sequence.generated) {
    // Before min_tokens no stop token can have been drawn, so one there is the client's own doing.
    const bool stop_token =
        IsStopToken(token) && static_cast<int32_t>(output_tokens_) >= task.sequence.min_tokens;
    resumed_tokens_ = ++output_tokens_;
    if (text_ && (!stop_token || include_stop_)) text_->Add(token);  // the client has this text
    stopped_ = text_ && text_->stopped();
    if (stopped_ || stop_token) {
      Complete(v1::FINISH_REASON_STOP, {});
      return false;
    }
  }
  if (static_cast<int32_t>(output_tokens_) < task.sequence.max_tokens) return true;
  Complete(v1::FINISH_REASON_LENGTH, {});
  return false;
}

void Sample::Absorb() {
  if (complete_ || !status_.ok()) return;
  TokenStream::Chunk chunk = stream_->Read();
  for (const SampledToken& token : chunk.tokens) AddToken(token);
  if (!chunk.closed) return;
  if (stopped_) return Complete(v1::FINISH_REASON_STOP, chunk.times);
  if (!chunk.status.ok()) {
    status_ = std::move(chunk.status);
    return;
  }
  Complete(
      chunk.reason == FinishReason::kLength ? v1::FINISH_REASON_LENGTH : v1::FINISH_REASON_STOP,
      chunk.times);
}

void Sample::AddToken(const SampledToken& token) {
  if (stopped_) return;  // the scheduler ran ahead of the stop string
  news_ = true;
  ++output_tokens_;
  message_.add_token_ids(token.token);
  if (logprobs_) AddInfo(token);
  // A stop token ends the sample like a stop string, so its text is treated like one.
  if (!text_ || (IsStopToken(token.token) && !include_stop_)) return;
  *message_.mutable_text() += text_->Add(token.token);
  if (!text_->stopped()) return;
  stopped_ = true;
  stream_->Cancel();
}

void Sample::AddInfo(const SampledToken& token) {
  v1::TokenInfo* info = message_.add_infos();
  info->set_logprob(token.logprob);
  for (const TokenLogprob& top : token.top) {
    v1::TokenLogprob* entry = info->add_top();
    entry->set_token(top.token);
    entry->set_logprob(top.logprob);
    entry->set_text(tokenizer_.Bytes(top.token, /*first=*/false));
  }
}

void Sample::Complete(v1::FinishReason reason, const SequenceTimes& times) {
  if (text_ && !stopped_) *message_.mutable_text() += text_->Finish();
  if (stopped_) message_.set_stop_match(text_->stop_match());
  message_.set_finish_reason(reason);
  message_.mutable_usage()->set_prompt_tokens(prompt_tokens_);
  message_.mutable_usage()->set_output_tokens(output_tokens_);
  message_.mutable_usage()->set_cached_prompt_tokens(static_cast<uint32_t>(times.cached_tokens));
  Fill(times, message_.mutable_timings());
  complete_ = true;
  news_ = true;
}

v1::GenerateResponse Sample::TakeMessage() {
  message_.set_index(static_cast<uint32_t>(index_));
  if (!std::exchange(told_seed_, true)) message_.set_seed(seed_);
  news_ = false;
  return std::exchange(message_, v1::GenerateResponse());
}

}  // namespace penstock
