#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "proto/penstock/v1/generation.pb.h"
#include "scheduler/token_stream.h"
#include "server/request_validation.h"
#include "server/text/text_stream.h"
#include "server/text/tokenizer.h"

namespace penstock {

// One of a call's samples: committed tokens in, messages for the client out. What the client has
// not taken yet is merged into one message, as long as the call lets it absorb. Owned by one call,
// used by one thread at a time.
class Sample {
 public:
  Sample(const GenerationTask& task, int32_t index, const Tokenizer& tokenizer,
         std::shared_ptr<TokenStream> stream);

  // Counts the tokens that a resuming client already holds and brings the text to where it was.
  // False: they already end the sample; nothing is to be generated, the last message is ready.
  bool Resume(const GenerationTask& task);

  // Takes what the stream has. A stop string cancels the stream; tokens behind it are ignored.
  void Absorb();
  void Cancel() { stream_->Cancel(); }

  bool started() const { return complete_ || has_token() || stream_->started(); }
  bool has_token() const { return output_tokens_ > resumed_tokens_; }
  bool complete() const { return complete_; }  // nothing more comes from the stream
  // Of the message that gathers.
  int32_t unsent_tokens() const { return message_.token_ids_size(); }
  bool has_message() const { return news_; }
  v1::GenerateResponse TakeMessage();
  bool finished() const { return complete_ && !news_; }   // the last message has been taken
  const absl::Status& status() const { return status_; }  // why the stream failed, if it did

 private:
  bool IsStopToken(int32_t token) const;
  void AddToken(const SampledToken& token);
  void AddInfo(const SampledToken& token);
  void Complete(v1::FinishReason reason, const SequenceTimes& times);

  const Tokenizer& tokenizer_;
  const std::shared_ptr<TokenStream> stream_;
  std::optional<TextStream> text_;          // absent when only ids are wanted
  const std::vector<int32_t> stop_tokens_;  // sorted
  const bool include_stop_;
  const bool logprobs_;
  const int32_t index_;
  const uint32_t prompt_tokens_;
  const uint64_t seed_;

  uint32_t resumed_tokens_ = 0;  // of the output
  uint32_t output_tokens_ = 0;
  bool stopped_ = false;  // by a stop string
  bool told_seed_ = false;
  bool news_ = false;      // message_ is worth sending
  bool complete_ = false;  // message_ is, or was, the last one
  absl::Status status_;
  v1::GenerateResponse message_;
};

}  // namespace penstock
