#include "server/request_validation.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/field_checks.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

// Temperatures below this act as this: still as good as greedy, and no logit overflows.
constexpr float kLeastTemperature = 1e-3f;

absl::Status ParsePenalties(const v1::Sampling& from, SamplingParams* to) {
  if (from.has_repetition_penalty()) to->repetition_penalty = from.repetition_penalty();
  to->presence_penalty = from.presence_penalty();
  to->frequency_penalty = from.frequency_penalty();
  RETURN_IF_ERROR(CheckRange("sampling.repetition_penalty", to->repetition_penalty, 0.01f, 100.0f));
  RETURN_IF_ERROR(CheckRange("sampling.presence_penalty", to->presence_penalty, -2.0f, 2.0f));
  return CheckRange("sampling.frequency_penalty", to->frequency_penalty, -2.0f, 2.0f);
}

absl::Status ParseLogitBias(const v1::Sampling& from, const ServedModel& model,
                            SamplingParams* to) {
  if (from.logit_bias_size() > model.limits.max_logit_bias)
    return Refuse("sampling.logit_bias", "has ", from.logit_bias_size(), " entries; at most ",
                  model.limits.max_logit_bias, " are allowed");
  for (const auto& [id, bias] : from.logit_bias()) {
    RETURN_IF_ERROR(CheckToken("sampling.logit_bias", id, model.vocab()));
    RETURN_IF_ERROR(CheckRange("sampling.logit_bias", bias, -100.0f, 100.0f));
    to->logit_bias.emplace_back(id, bias);
  }
  std::sort(to->logit_bias.begin(), to->logit_bias.end());  // a map has no order of its own
  return absl::OkStatus();
}

absl::Status ParseSampling(const v1::Sampling& from, const ServedModel& model, SamplingParams* to) {
  if (from.has_temperature()) to->temperature = from.temperature();
  if (from.has_top_p()) to->top_p = from.top_p();
  to->min_p = from.min_p();
  RETURN_IF_ERROR(CheckRange("sampling.temperature", to->temperature, 0.0f, 100.0f));
  if (!(to->top_p > 0.0f && to->top_p <= 1.0f))
    return Refuse("sampling.top_p", "is ", to->top_p, "; it must be in (0, 1]");
  RETURN_IF_ERROR(CheckRange("sampling.min_p", to->min_p, 0.0f, 1.0f));
  if (to->temperature > 0.0f) to->temperature = std::max(to->temperature, kLeastTemperature);
  // More candidates than the vocabulary has are all of them.
  if (from.top_k() < static_cast<uint32_t>(model.info.vocab))
    to->top_k = static_cast<int32_t>(from.top_k());
  RETURN_IF_ERROR(ParsePenalties(from, to));
  return ParseLogitBias(from, model, to);
}

absl::Status ParseStopStrings(const v1::GenerateRequest& request, const RequestLimits& limits,
                              GenerationTask* task) {
  const auto& stop = request.stopping().stop();
  if (stop.size() > limits.max_stop_strings)
    return Refuse("stopping.stop", "has ", stop.size(), " strings; at most ",
                  limits.max_stop_strings, " are allowed");
  if (!stop.empty() && request.output().token_ids_only())
    return Refuse("stopping.stop", "needs text, which output.token_ids_only turns off");
  for (const std::string& text : stop) {
    if (text.empty()) return Refuse("stopping.stop", "has an empty string");
    if (text.size() > limits.max_stop_bytes)
      return Refuse("stopping.stop", "has a string of ", text.size(), " bytes; at most ",
                    limits.max_stop_bytes, " are allowed");
    task->text.stop.push_back(text);
  }
  task->text.include_stop = request.stopping().include_stop_in_output();
  task->text.continues_text = true;  // the answer goes on from the prompt, space and all
  return absl::OkStatus();
}

absl::Status ParseStopTokens(const v1::Stopping& from, const ServedModel& model,
                             GenerateRequest* to) {
  if (from.stop_token_ids_size() > model.limits.max_stop_tokens)
    return Refuse("stopping.stop_token_ids", "has ", from.stop_token_ids_size(), " ids; at most ",
                  model.limits.max_stop_tokens, " are allowed");
  RETURN_IF_ERROR(CheckTokens("stopping.stop_token_ids", from.stop_token_ids(), model.vocab()));
  std::vector<int32_t> ids(from.stop_token_ids().begin(), from.stop_token_ids().end());
  if (!from.ignore_eos()) ids.insert(ids.end(), model.eos_tokens.begin(), model.eos_tokens.end());
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  to->stop_tokens = std::move(ids);
  return absl::OkStatus();
}

absl::Status ParsePrompt(const v1::GenerateRequest& request, const ServedModel& model,
                         std::vector<int32_t>* prompt) {
  switch (request.prompt_case()) {
    case v1::GenerateRequest::kTokens:
      prompt->assign(request.tokens().ids().begin(), request.tokens().ids().end());
      break;
    case v1::GenerateRequest::kText: {
      RETURN_IF_ERROR(CheckTextSize("prompt text", request.text().size(), model));
      EncodeOptions options;
      if (request.has_add_special_tokens())
        options.add_special_tokens = request.add_special_tokens();
      if (request.has_parse_special_tokens())
        options.parse_special_tokens = request.parse_special_tokens();
      // Not even a BOS makes a prompt out of nothing: the client probably meant something else.
      if (!request.text().empty()) *prompt = model.tokenizer.Encode(request.text(), options);
      break;
    }
    case v1::GenerateRequest::PROMPT_NOT_SET: break;
  }
  if (prompt->empty()) return Refuse("prompt", "is empty");
  return CheckTokens("prompt", *prompt, model.vocab());
}

// With the prompt known: how many tokens may be generated.
absl::Status ParseLengths(const v1::GenerateRequest& request, const ServedModel& model,
                          GenerateRequest* to) {
  const int64_t prompt = static_cast<int64_t>(to->prompt.size());
  const int64_t context = model.info.max_context;
  if (prompt + 1 > context)
    return Refuse("prompt", "has ", prompt, " tokens; with at least one output token it does not ",
                  "fit the context of ", context, " tokens");
  const v1::Stopping& stopping = request.stopping();
  const int64_t wanted = stopping.has_max_tokens() ? stopping.max_tokens() : context - prompt;
  if (wanted < 1) return Refuse("stopping.max_tokens", "is 0; it must be at least 1");
  if (prompt + wanted > context)
    return Refuse("stopping.max_tokens", "is ", wanted, "; with a prompt of ", prompt,
                  " tokens at most ", context - prompt, " fit the context of ", context);
  if (stopping.min_tokens() > wanted)
    return Refuse("stopping.min_tokens", "is ", stopping.min_tokens(), ", more than max_tokens (",
                  wanted, ")");
  // As many as max_tokens is fine: the client may have missed just the end.
  if (static_cast<int64_t>(to->generated.size()) > wanted)
    return Refuse("resume_tokens", "has ", to->generated.size(), " tokens, more than max_tokens (",
                  wanted, ")");
  to->max_tokens = static_cast<int32_t>(wanted);
  to->min_tokens = static_cast<int32_t>(stopping.min_tokens());
  if (to->min_tokens > 0) to->sampling.masked_until_min = to->stop_tokens;
  return absl::OkStatus();
}

absl::Status ParseSamples(const v1::GenerateRequest& request, const ServedModel& model,
                          GenerationTask* task) {
  const uint32_t n = request.has_n() ? request.n() : 1;
  if (!(n >= 1 && n <= model.limits.max_samples))
    return Refuse("n", "is ", n, "; it must be in [1, ", model.limits.max_samples, "]");
  task->samples = static_cast<int32_t>(n);
  if (n != 1 && request.resume_tokens_size() > 0)
    return Refuse("resume_tokens", "needs n = 1, but n is ", n);
  RETURN_IF_ERROR(CheckTokens("resume_tokens", request.resume_tokens(), model.vocab()));
  task->sequence.generated.assign(request.resume_tokens().begin(), request.resume_tokens().end());
  return absl::OkStatus();
}

// With another seed, what follows would be another stream.
absl::Status CheckSeed(const v1::GenerateRequest& request, const SamplingParams& sampling) {
  if (request.resume_tokens_size() == 0 || request.sampling().has_seed() ||
      sampling.temperature == 0)
    return absl::OkStatus();
  return Refuse("resume_tokens", "needs sampling.seed, which the first message told");
}

absl::Status ParseOutput(const v1::Output& from, const RequestLimits& limits,
                         GenerationTask* task) {
  if (from.logprobs() > limits.max_logprobs)
    return Refuse("output.logprobs", "is ", from.logprobs(), "; at most ", limits.max_logprobs,
                  " are allowed");
  if (from.has_logprobs()) task->sequence.sampling.logprobs = static_cast<int32_t>(from.logprobs());
  if (from.has_skip_special_tokens()) task->text.skip_special_tokens = from.skip_special_tokens();
  task->token_ids_only = from.token_ids_only();
  return absl::OkStatus();
}

// FNV-1a. Never 0, which stands for "no salt".
uint64_t SaltFrom(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash != 0 ? hash : 1;
}

absl::Status ParseScheduling(const v1::Scheduling& from, const RequestLimits& limits,
                             uint64_t drawn, GenerationTask* task) {
  RETURN_IF_ERROR(ParseQueueing(from, limits, &task->sequence.priority, &task->queue_timeout));
  if (from.cache_salt().size() > limits.max_cache_salt_bytes)
    return Refuse("scheduling.cache_salt", "has ", from.cache_salt().size(), " bytes; at most ",
                  limits.max_cache_salt_bytes, " are allowed");
  if (!from.cache_salt().empty()) task->sequence.cache_salt = SaltFrom(from.cache_salt());
  if (from.has_prefix_cache() && !from.prefix_cache()) {
    task->sequence.cache_salt = SaltFrom(absl::StrCat("private ", drawn));
    task->sequence.keep_cached = false;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GenerationTask> ParseGenerateRequest(const v1::GenerateRequest& request,
                                                    const ServedModel& model, uint64_t drawn) {
  GenerationTask task;
  GenerateRequest& sequence = task.sequence;
  RETURN_IF_ERROR(CheckModelName(request.model(), model));
  RETURN_IF_ERROR(ParseSamples(request, model, &task));
  RETURN_IF_ERROR(ParseSampling(request.sampling(), model, &sequence.sampling));
  RETURN_IF_ERROR(CheckSeed(request, sequence.sampling));
  RETURN_IF_ERROR(ParseOutput(request.output(), model.limits, &task));
  RETURN_IF_ERROR(ParseScheduling(request.scheduling(), model.limits, drawn, &task));
  RETURN_IF_ERROR(ParseStopStrings(request, model.limits, &task));
  RETURN_IF_ERROR(ParseStopTokens(request.stopping(), model, &sequence));
  RETURN_IF_ERROR(ParsePrompt(request, model, &sequence.prompt));
  RETURN_IF_ERROR(ParseLengths(request, model, &sequence));
  sequence.sampling.seed = request.sampling().has_seed() ? request.sampling().seed() : drawn;
  return task;
}

}  // namespace penstock
