#include "shard/remote/step_codec.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

template <typename T, typename Field>
void Put(const std::vector<T>& values, Field* field) {
  field->Add(values.begin(), values.end());
}

template <typename Field>
auto Get(const Field& field) {
  return std::vector<typename Field::value_type>(field.begin(), field.end());
}

void EncodeAssignment(const SlotAssignment& from, v1::Assignment* to) {
  const SamplingParams& params = from.params;
  to->set_slot(from.slot);
  to->set_temperature(params.temperature);
  to->set_top_k(params.top_k);
  to->set_top_p(params.top_p);
  to->set_min_p(params.min_p);
  to->set_repetition_penalty(params.repetition_penalty);
  to->set_presence_penalty(params.presence_penalty);
  to->set_frequency_penalty(params.frequency_penalty);
  to->set_seed(params.seed);
  to->set_logprobs(params.logprobs);
  for (const auto& [token, bias] : params.logit_bias) {
    to->add_bias_tokens(token);
    to->add_biases(bias);
  }
  Put(params.masked_until_min, to->mutable_masked_until_min());
  to->set_sample_index(from.sample_index);
  Put(from.prompt, to->mutable_prompt());
  Put(from.generated, to->mutable_generated());
}

absl::StatusOr<SlotAssignment> DecodeAssignment(const v1::Assignment& from) {
  if (from.bias_tokens_size() != from.biases_size())
    return absl::InvalidArgumentError(absl::StrCat("slot ", from.slot(), ": ",
                                                   from.bias_tokens_size(), " tokens have ",
                                                   from.biases_size(), " biases"));
  SlotAssignment to{.slot = from.slot(),
                    .params = {.temperature = from.temperature(),
                               .top_k = from.top_k(),
                               .top_p = from.top_p(),
                               .min_p = from.min_p(),
                               .repetition_penalty = from.repetition_penalty(),
                               .presence_penalty = from.presence_penalty(),
                               .frequency_penalty = from.frequency_penalty(),
                               .seed = from.seed(),
                               .logprobs = from.logprobs(),
                               .logit_bias = {},
                               .masked_until_min = Get(from.masked_until_min())},
                    .sample_index = from.sample_index(),
                    .prompt = Get(from.prompt()),
                    .generated = Get(from.generated())};
  for (int i = 0; i < from.biases_size(); ++i)
    to.params.logit_bias.emplace_back(from.bias_tokens(i), from.biases(i));
  return to;
}

void EncodeSample(const SampleRow& from, v1::Sample* to) {
  to->set_row(from.row);
  to->set_slot(from.slot);
  to->set_position(from.position);
  to->set_mask_stops(from.mask_stops);
}

void EncodeDrawn(const SampledToken& from, v1::Drawn* to) {
  to->set_token(from.token);
  to->set_logprob(from.logprob);
  for (const TokenLogprob& top : from.top) {
    to->add_top_tokens(top.token);
    to->add_top_logprobs(top.logprob);
  }
}

absl::StatusOr<SampledToken> DecodeDrawn(const v1::Drawn& from) {
  if (from.top_tokens_size() != from.top_logprobs_size())
    return absl::InvalidArgumentError(absl::StrCat(from.top_tokens_size(),
                                                   " most likely tokens have ",
                                                   from.top_logprobs_size(), " logprobs"));
  SampledToken to{.token = from.token(), .logprob = from.logprob(), .top = {}};
  for (int i = 0; i < from.top_tokens_size(); ++i)
    to.top.push_back({from.top_tokens(i), from.top_logprobs(i)});
  return to;
}

}  // namespace

v1::Step EncodeStep(const StepBatch& batch) {
  v1::Step message;
  message.set_step(batch.step);
  message.set_epoch(batch.epoch);
  message.set_plan_hash(batch.plan_hash);
  message.set_kind(static_cast<uint32_t>(batch.kind));
  Put(batch.tokens, message.mutable_tokens());
  Put(batch.positions, message.mutable_positions());
  Put(batch.token_types, message.mutable_token_types());
  Put(batch.slots, message.mutable_slots());
  Put(batch.seq_begin, message.mutable_seq_begin());
  Put(batch.context_lens, message.mutable_context_lens());
  Put(batch.block_begin, message.mutable_block_begin());
  Put(batch.blocks, message.mutable_blocks());
  for (const SlotAssignment& assignment : batch.assignments)
    EncodeAssignment(assignment, message.add_assignments());
  for (const SampleRow& sample : batch.samples) EncodeSample(sample, message.add_samples());
  message.set_return_logits(batch.return_logits);
  return message;
}

absl::StatusOr<StepBatch> DecodeStep(const v1::Step& message) {
  if (message.kind() > static_cast<uint32_t>(StepKind::kEncode))
    return absl::InvalidArgumentError(
        absl::StrCat("step ", message.step(), ": there is no kind ", message.kind()));
  StepBatch batch{.step = message.step(),
                  .epoch = message.epoch(),
                  .plan_hash = message.plan_hash(),
                  .kind = static_cast<StepKind>(message.kind()),
                  .tokens = Get(message.tokens()),
                  .positions = Get(message.positions()),
                  .token_types = Get(message.token_types()),
                  .slots = Get(message.slots()),
                  .seq_begin = Get(message.seq_begin()),
                  .context_lens = Get(message.context_lens()),
                  .block_begin = Get(message.block_begin()),
                  .blocks = Get(message.blocks()),
                  .assignments = {},
                  .samples = {},
                  .return_logits = message.return_logits()};
  for (const v1::Assignment& from : message.assignments()) {
    ASSIGN_OR_RETURN(SlotAssignment assignment, DecodeAssignment(from));
    batch.assignments.push_back(std::move(assignment));
  }
  for (const v1::Sample& from : message.samples())
    batch.samples.push_back({from.row(), from.slot(), from.position(), from.mask_stops()});
  return batch;
}

v1::StepDone EncodeDone(int rank, uint64_t epoch, const StepResult& share,
                        const StageStats& stats) {
  v1::StepDone message;
  message.set_rank(static_cast<uint32_t>(rank));
  message.set_epoch(epoch);
  message.set_step(share.step);
  for (const SampledToken& drawn : share.samples) EncodeDrawn(drawn, message.add_samples());
  Put(share.logits, message.mutable_logits());
  Put(share.outputs, message.mutable_outputs());
  const StageTiming& timing = share.stages.front();
  message.mutable_timing()->set_begin(timing.begin);
  message.mutable_timing()->set_end(timing.end);
  message.mutable_timing()->set_transfer(timing.transfer);
  message.mutable_timing()->set_wait(timing.wait);
  message.set_busy(stats.busy);
  message.set_transfer(stats.transfer);
  return message;
}

absl::StatusOr<StepResult> DecodeDone(const v1::StepDone& message) {
  const v1::StageTiming& timing = message.timing();
  StepResult share{.step = message.step(),
                   .samples = {},
                   .logits = Get(message.logits()),
                   .outputs = Get(message.outputs()),
                   .stages = {{.begin = timing.begin(),
                               .end = timing.end(),
                               .transfer = timing.transfer(),
                               .wait = timing.wait()}}};
  for (const v1::Drawn& from : message.samples()) {
    ASSIGN_OR_RETURN(SampledToken drawn, DecodeDrawn(from));
    share.samples.push_back(std::move(drawn));
  }
  return share;
}

v1::Outcome EncodeOutcome(const absl::Status& status) {
  v1::Outcome message;
  message.set_code(static_cast<uint32_t>(status.code()));
  message.set_message(std::string(status.message()));
  return message;
}

absl::Status DecodeOutcome(const v1::Outcome& message) {
  constexpr uint32_t kLast = static_cast<uint32_t>(absl::StatusCode::kUnauthenticated);
  const auto code = message.code() <= kLast ? static_cast<absl::StatusCode>(message.code())
                                            : absl::StatusCode::kUnknown;
  return absl::Status(code, message.message());
}

}  // namespace penstock
