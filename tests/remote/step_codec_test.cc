#include "shard/remote/step_codec.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace penstock {
namespace {

// Draws values that a codec could get wrong: negative ones, extremes, none at all.
class Source {
 public:
  explicit Source(unsigned seed) : random_(seed) {}
  int32_t Int() { return static_cast<int32_t>(random_()); }
  float Float() { return std::uniform_real_distribution<float>(-1e30f, 1e30f)(random_); }
  size_t Count() { return random_() % 9; }
  bool Flip() { return random_() % 2 == 0; }
  uint64_t Word() { return uint64_t{random_()} << 32 | random_(); }
  std::vector<int32_t> Ints() {
    std::vector<int32_t> values(Count());
    for (int32_t& value : values) value = Int();
    return values;
  }
  std::vector<float> Floats() {
    std::vector<float> values(Count());
    for (float& value : values) value = Float();
    return values;
  }

 private:
  std::mt19937 random_;
};

SlotAssignment RandomAssignment(Source& source) {
  SlotAssignment assignment{.slot = source.Int(),
                            .params = {},
                            .sample_index = source.Int(),
                            .prompt = source.Ints(),
                            .generated = source.Ints()};
  SamplingParams& params = assignment.params;
  for (float* value :
       {&params.temperature, &params.top_p, &params.min_p, &params.repetition_penalty,
        &params.presence_penalty, &params.frequency_penalty})
    *value = source.Float();
  params.top_k = source.Int();
  params.seed = source.Word();
  params.logprobs = source.Int();
  for (size_t i = source.Count(); i > 0; --i)
    params.logit_bias.emplace_back(source.Int(), source.Float());
  params.masked_until_min = source.Ints();
  return assignment;
}

StepBatch RandomStep(Source& source) {
  StepBatch batch;
  batch.step = static_cast<int64_t>(source.Word());
  batch.epoch = source.Word();
  batch.plan_hash = source.Word();
  batch.kind = source.Flip() ? StepKind::kGenerate : StepKind::kEncode;
  for (std::vector<int32_t>* values :
       {&batch.tokens, &batch.positions, &batch.token_types, &batch.slots, &batch.seq_begin,
        &batch.context_lens, &batch.block_begin, &batch.blocks})
    *values = source.Ints();
  for (size_t i = source.Count(); i > 0; --i) batch.assignments.push_back(RandomAssignment(source));
  for (size_t i = source.Count(); i > 0; --i)
    batch.samples.push_back({source.Int(), source.Int(), source.Int(), source.Flip()});
  batch.return_logits = source.Flip();
  return batch;
}

void ExpectEqual(const SlotAssignment& a, const SlotAssignment& b) {
  EXPECT_EQ(a.slot, b.slot);
  EXPECT_EQ(a.sample_index, b.sample_index);
  EXPECT_EQ(a.prompt, b.prompt);
  EXPECT_EQ(a.generated, b.generated);
  const SamplingParams &p = a.params, &q = b.params;
  EXPECT_EQ(p.temperature, q.temperature);
  EXPECT_EQ(p.top_k, q.top_k);
  EXPECT_EQ(p.top_p, q.top_p);
  EXPECT_EQ(p.min_p, q.min_p);
  EXPECT_EQ(p.repetition_penalty, q.repetition_penalty);
  EXPECT_EQ(p.presence_penalty, q.presence_penalty);
  EXPECT_EQ(p.frequency_penalty, q.frequency_penalty);
  EXPECT_EQ(p.seed, q.seed);
  EXPECT_EQ(p.logprobs, q.logprobs);
  EXPECT_EQ(p.logit_bias, q.logit_bias);
  EXPECT_EQ(p.masked_until_min, q.masked_until_min);
}

void ExpectEqual(const StepBatch& a, const StepBatch& b) {
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.epoch, b.epoch);
  EXPECT_EQ(a.plan_hash, b.plan_hash);
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.positions, b.positions);
  EXPECT_EQ(a.token_types, b.token_types);
  EXPECT_EQ(a.slots, b.slots);
  EXPECT_EQ(a.seq_begin, b.seq_begin);
  EXPECT_EQ(a.context_lens, b.context_lens);
  EXPECT_EQ(a.block_begin, b.block_begin);
  EXPECT_EQ(a.blocks, b.blocks);
  ASSERT_EQ(a.assignments.size(), b.assignments.size());
  for (size_t i = 0; i < a.assignments.size(); ++i) ExpectEqual(a.assignments[i], b.assignments[i]);
  ASSERT_EQ(a.samples.size(), b.samples.size());
  for (size_t i = 0; i < a.samples.size(); ++i) {
    EXPECT_EQ(a.samples[i].row, b.samples[i].row);
    EXPECT_EQ(a.samples[i].slot, b.samples[i].slot);
    EXPECT_EQ(a.samples[i].position, b.samples[i].position);
    EXPECT_EQ(a.samples[i].mask_stops, b.samples[i].mask_stops);
  }
  EXPECT_EQ(a.return_logits, b.return_logits);
}

TEST(StepCodec, StepsComeBackAsTheyWere) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Source source(seed);
    const StepBatch batch = RandomStep(source);
    v1::Step message;
    ASSERT_TRUE(message.ParseFromString(EncodeStep(batch).SerializeAsString()));
    const auto decoded = DecodeStep(message);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ExpectEqual(batch, *decoded);
    EXPECT_EQ(HashPlan(batch), HashPlan(*decoded));
  }
}

TEST(StepCodec, ResultsComeBackAsTheyWere) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Source source(seed);
    StepResult share{.step = source.Int(),
                     .samples = {},
                     .logits = source.Floats(),
                     .outputs = source.Floats(),
                     .stages = {{source.Int(), source.Int(), source.Int(), source.Int()}}};
    for (size_t i = source.Count(); i > 0; --i) {
      SampledToken& drawn = share.samples.emplace_back();
      drawn.token = source.Flip() ? kNoToken : source.Int();
      drawn.logprob = source.Float();
      for (size_t k = source.Count(); k > 0; --k)
        drawn.top.push_back({source.Int(), source.Float()});
    }
    v1::StepDone message;
    ASSERT_TRUE(message.ParseFromString(
        EncodeDone(3, 7, share, {.busy = 0.25, .transfer = 0.5}).SerializeAsString()));
    EXPECT_EQ(message.rank(), 3u);
    EXPECT_EQ(message.epoch(), 7u);
    EXPECT_EQ(message.busy(), 0.25);
    EXPECT_EQ(message.transfer(), 0.5);
    const auto decoded = DecodeDone(message);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->step, share.step);
    EXPECT_EQ(decoded->logits, share.logits);
    EXPECT_EQ(decoded->outputs, share.outputs);
    ASSERT_EQ(decoded->stages.size(), 1u);
    EXPECT_EQ(decoded->stages[0].begin, share.stages[0].begin);
    EXPECT_EQ(decoded->stages[0].end, share.stages[0].end);
    EXPECT_EQ(decoded->stages[0].transfer, share.stages[0].transfer);
    EXPECT_EQ(decoded->stages[0].wait, share.stages[0].wait);
    ASSERT_EQ(decoded->samples.size(), share.samples.size());
    for (size_t i = 0; i < share.samples.size(); ++i) {
      EXPECT_EQ(decoded->samples[i].token, share.samples[i].token);
      EXPECT_EQ(decoded->samples[i].logprob, share.samples[i].logprob);
      ASSERT_EQ(decoded->samples[i].top.size(), share.samples[i].top.size());
      for (size_t k = 0; k < share.samples[i].top.size(); ++k) {
        EXPECT_EQ(decoded->samples[i].top[k].token, share.samples[i].top[k].token);
        EXPECT_EQ(decoded->samples[i].top[k].logprob, share.samples[i].top[k].logprob);
      }
    }
  }
}

TEST(StepCodec, MalformedMessagesAreRefused) {
  v1::Step kind;
  kind.set_kind(2);
  EXPECT_EQ(DecodeStep(kind).status().code(), absl::StatusCode::kInvalidArgument);
  v1::Step bias;
  bias.add_assignments()->add_bias_tokens(1);
  EXPECT_EQ(DecodeStep(bias).status().code(), absl::StatusCode::kInvalidArgument);
  v1::StepDone top;
  top.add_samples()->add_top_logprobs(1);
  EXPECT_EQ(DecodeDone(top).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(StepCodec, BrokenBytesNeverCrash) {
  Source source(1);
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = EncodeStep(RandomStep(source)).SerializeAsString();
    for (size_t k = 1 + source.Count(); k > 0 && !bytes.empty(); --k)
      bytes[source.Word() % bytes.size()] = static_cast<char>(source.Int());
    v1::Step step;
    if (step.ParseFromString(bytes)) DecodeStep(step).status().IgnoreError();
    v1::StepDone done;
    if (done.ParseFromString(bytes)) DecodeDone(done).status().IgnoreError();
  }
}

TEST(StepCodec, OutcomesComeBackAsTheyWere) {
  EXPECT_TRUE(DecodeOutcome(EncodeOutcome(absl::OkStatus())).ok());
  const absl::Status late = absl::DeadlineExceededError("step 3, rank 1");
  EXPECT_EQ(DecodeOutcome(EncodeOutcome(late)), late);
  v1::Outcome unheard_of;
  unheard_of.set_code(99);
  EXPECT_EQ(DecodeOutcome(unheard_of).code(), absl::StatusCode::kUnknown);
}

}  // namespace
}  // namespace penstock
