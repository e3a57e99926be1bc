#include "server/request_validation.h"

#include <functional>
#include <limits>
#include <string>

#include "gtest/gtest.h"
#include "tests/server/byte_tokenizer.h"

namespace penstock {
namespace {

constexpr int32_t kVocab = ByteTokenizer::kVocab;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

class ValidationTest : public testing::Test {
 protected:
  ValidationTest() {
    request_.set_text("hello");
    model_.info.max_context = 32;
    model_.info.vocab = 300;
  }
  absl::StatusOr<GenerationTask> Parse() const { return ParseGenerateRequest(request_, model_, 7); }

  const ByteTokenizer tokenizer_;
  ServedModel model_{"letters", tokenizer_, {}, {ByteTokenizer::kEos}};
  v1::GenerateRequest request_;
};

TEST_F(ValidationTest, FillsDefaults) {
  const auto task = Parse();
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ(task->sequence.prompt, (std::vector<int32_t>{257, 'h', 'e', 'l', 'l', 'o'}));
  EXPECT_EQ(task->sequence.max_tokens, 32 - 6);
  EXPECT_EQ(task->sequence.min_tokens, 0);
  EXPECT_EQ(task->sequence.stop_tokens, std::vector<int32_t>{ByteTokenizer::kEos});
  EXPECT_EQ(task->sequence.sampling.temperature, 1.0f);
  EXPECT_EQ(task->sequence.sampling.top_p, 1.0f);
  EXPECT_EQ(task->sequence.sampling.seed, 7u);
  EXPECT_EQ(task->sequence.sampling.logprobs, -1);
  EXPECT_EQ(task->samples, 1);
  EXPECT_TRUE(task->text.skip_special_tokens);
}

TEST_F(ValidationTest, TakesWhatIsSet) {
  request_.set_model("letters");
  request_.set_add_special_tokens(false);
  request_.set_parse_special_tokens(false);
  request_.set_text("</s>");
  request_.mutable_sampling()->set_seed(std::numeric_limits<uint64_t>::max());
  request_.mutable_sampling()->set_top_k(5);
  (*request_.mutable_sampling()->mutable_logit_bias())[9] = 1.5f;
  (*request_.mutable_sampling()->mutable_logit_bias())[3] = -100.0f;
  request_.mutable_stopping()->set_ignore_eos(true);
  request_.mutable_stopping()->add_stop_token_ids(65);
  request_.mutable_stopping()->set_min_tokens(2);
  request_.mutable_stopping()->set_max_tokens(28);  // exactly what fits
  request_.mutable_output()->set_logprobs(0);
  const auto task = Parse();
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ(task->sequence.prompt.size(), 4u);
  EXPECT_EQ(task->sequence.sampling.seed, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(task->sequence.sampling.top_k, 5);
  EXPECT_EQ(task->sequence.sampling.logit_bias,
            (std::vector<std::pair<int32_t, float>>{{3, -100.0f}, {9, 1.5f}}));
  EXPECT_EQ(task->sequence.stop_tokens, std::vector<int32_t>{65});
  EXPECT_EQ(task->sequence.sampling.masked_until_min, std::vector<int32_t>{65});
  EXPECT_EQ(task->sequence.max_tokens, 28);
  EXPECT_EQ(task->sequence.sampling.logprobs, 0);
}

TEST_F(ValidationTest, SmallTemperaturesAreSafeAndLargeTopKMeansAll) {
  request_.mutable_sampling()->set_temperature(1e-42f);
  request_.mutable_sampling()->set_top_k(std::numeric_limits<uint32_t>::max());
  const auto task = Parse();
  ASSERT_TRUE(task.ok());
  EXPECT_EQ(task->sequence.sampling.temperature, 1e-3f);
  EXPECT_EQ(task->sequence.sampling.top_k, 0);
}

TEST_F(ValidationTest, TakesWhatIsSaidOfScheduling) {
  auto task = Parse();
  ASSERT_TRUE(task.ok());
  EXPECT_EQ(task->sequence.priority, 0);
  EXPECT_FALSE(task->queue_timeout.has_value());
  EXPECT_EQ(task->sequence.cache_salt, 0u);
  EXPECT_TRUE(task->sequence.keep_cached);
  request_.mutable_scheduling()->set_priority(-100);
  request_.mutable_scheduling()->set_queue_timeout_seconds(0);
  request_.mutable_scheduling()->set_prefix_cache(true);
  task = Parse();
  ASSERT_TRUE(task.ok());
  EXPECT_EQ(task->sequence.priority, -100);
  EXPECT_EQ(task->queue_timeout, absl::ZeroDuration());
  EXPECT_EQ(task->sequence.cache_salt, 0u);
  request_.mutable_scheduling()->set_queue_timeout_seconds(1.5);
  EXPECT_EQ(Parse()->queue_timeout, absl::Milliseconds(1500));
}

TEST_F(ValidationTest, SaltsTellTenantsAndPrivateCallsApart) {
  request_.mutable_scheduling()->set_cache_salt("tenant 1");
  const uint64_t first = Parse()->sequence.cache_salt;
  EXPECT_NE(first, 0u);
  EXPECT_EQ(Parse()->sequence.cache_salt, first);  // whatever number was drawn
  EXPECT_EQ(ParseGenerateRequest(request_, model_, 8)->sequence.cache_salt, first);
  request_.mutable_scheduling()->set_cache_salt("tenant 2");
  EXPECT_NE(Parse()->sequence.cache_salt, first);

  request_.mutable_scheduling()->set_prefix_cache(false);
  request_.mutable_sampling()->set_seed(1);  // the salt does not follow the seed
  const auto one = ParseGenerateRequest(request_, model_, 7);
  const auto other = ParseGenerateRequest(request_, model_, 8);
  EXPECT_FALSE(one->sequence.keep_cached);
  EXPECT_NE(one->sequence.cache_salt, 0u);
  EXPECT_NE(one->sequence.cache_salt, first);
  EXPECT_NE(one->sequence.cache_salt, other->sequence.cache_salt);
}

TEST_F(ValidationTest, UnknownModelIsNotFound) {
  request_.set_model("gpt");
  EXPECT_EQ(Parse().status().code(), absl::StatusCode::kNotFound);
}

// One thing that is wrong, and the field that the refusal must name.
struct BadField {
  const char* name;
  const char* field;
  std::function<void(v1::GenerateRequest&)> spoil;
};

class BadFieldTest : public ValidationTest, public testing::WithParamInterface<BadField> {};

TEST_P(BadFieldTest, IsRefusedByName) {
  ASSERT_TRUE(Parse().ok());
  GetParam().spoil(request_);
  const absl::Status status = Parse().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(status.message().substr(0, std::string(GetParam().field).size()), GetParam().field)
      << status;
}

using R = v1::GenerateRequest;

// The same float field spoiled by values no range contains, and by those outside its own.
template <typename Set>
void AddFloat(const char* name, const char* field, Set set, std::vector<float> out_of_range,
              std::vector<BadField>* rows) {
  out_of_range.insert(out_of_range.end(), {kNan, kInf, -kInf});
  for (float value : out_of_range)
    rows->push_back({name, field, [set, value](R& r) { set(r, value); }});
}

std::vector<BadField> BadSampling() {
  std::vector<BadField> rows;
  AddFloat(
      "Temperature", "sampling.temperature",
      [](R& r, float v) { r.mutable_sampling()->set_temperature(v); }, {-0.1f, 101}, &rows);
  AddFloat(
      "TopP", "sampling.top_p", [](R& r, float v) { r.mutable_sampling()->set_top_p(v); },
      {0, -1, 1.1f}, &rows);
  AddFloat(
      "MinP", "sampling.min_p", [](R& r, float v) { r.mutable_sampling()->set_min_p(v); },
      {-0.1f, 1.1f}, &rows);
  AddFloat(
      "RepetitionPenalty", "sampling.repetition_penalty",
      [](R& r, float v) { r.mutable_sampling()->set_repetition_penalty(v); }, {0, -1, 101}, &rows);
  AddFloat(
      "PresencePenalty", "sampling.presence_penalty",
      [](R& r, float v) { r.mutable_sampling()->set_presence_penalty(v); }, {-2.1f, 2.1f}, &rows);
  AddFloat(
      "FrequencyPenalty", "sampling.frequency_penalty",
      [](R& r, float v) { r.mutable_sampling()->set_frequency_penalty(v); }, {-2.1f, 2.1f}, &rows);
  AddFloat(
      "LogitBias", "sampling.logit_bias",
      [](R& r, float v) { (*r.mutable_sampling()->mutable_logit_bias())[1] = v; }, {-101, 101},
      &rows);
  for (int32_t id : {-1, kVocab, std::numeric_limits<int32_t>::max()})
    rows.push_back({"LogitBiasId", "sampling.logit_bias",
                    [id](R& r) { (*r.mutable_sampling()->mutable_logit_bias())[id] = 1; }});
  rows.push_back({"LogitBiasSize", "sampling.logit_bias", [](R& r) {
                    for (int i = 0; i < 1025; ++i)
                      (*r.mutable_sampling()->mutable_logit_bias())[i] = 0;
                  }});
  return rows;
}

std::vector<BadField> BadStopping() {
  std::vector<BadField> rows;
  for (int32_t id : {-1, kVocab, kVocab + 1, std::numeric_limits<int32_t>::min()})
    rows.push_back({"StopTokenId", "stopping.stop_token_ids", [id](R& r) {
                      r.mutable_stopping()->add_stop_token_ids(id);
                      r.mutable_stopping()->set_min_tokens(1);
                    }});
  rows.push_back({"StopTokenCount", "stopping.stop_token_ids", [](R& r) {
                    for (int i = 0; i < 257; ++i) r.mutable_stopping()->add_stop_token_ids(1);
                  }});
  rows.push_back({"StopEmpty", "stopping.stop", [](R& r) { r.mutable_stopping()->add_stop(""); }});
  rows.push_back({"StopLong", "stopping.stop",
                  [](R& r) { r.mutable_stopping()->add_stop(std::string(1025, 'x')); }});
  rows.push_back({"StopCount", "stopping.stop", [](R& r) {
                    for (int i = 0; i < 17; ++i) r.mutable_stopping()->add_stop("x");
                  }});
  rows.push_back({"StopWithoutText", "stopping.stop", [](R& r) {
                    r.mutable_stopping()->add_stop("x");
                    r.mutable_output()->set_token_ids_only(true);
                  }});
  for (uint32_t tokens : {0u, 27u, std::numeric_limits<uint32_t>::max()})
    rows.push_back({"MaxTokens", "stopping.max_tokens",
                    [tokens](R& r) { r.mutable_stopping()->set_max_tokens(tokens); }});
  for (uint32_t tokens : {6u, std::numeric_limits<uint32_t>::max()})
    rows.push_back({"MinTokens", "stopping.min_tokens", [tokens](R& r) {
                      r.mutable_stopping()->set_max_tokens(5);
                      r.mutable_stopping()->set_min_tokens(tokens);
                    }});
  return rows;
}

std::vector<BadField> BadPrompt() {
  std::vector<BadField> rows;
  rows.push_back({"Unset", "prompt", [](R& r) { r.clear_prompt(); }});
  rows.push_back({"EmptyText", "prompt", [](R& r) { r.set_text(""); }});
  rows.push_back({"EmptyIds", "prompt", [](R& r) { r.mutable_tokens(); }});
  for (int32_t id : {-1, kVocab, std::numeric_limits<int32_t>::max()})
    rows.push_back({"Id", "prompt", [id](R& r) { r.mutable_tokens()->add_ids(id); }});
  for (int size : {32, 33})
    rows.push_back({"Long", "prompt has", [size](R& r) {
                      for (int i = 0; i < size; ++i) r.mutable_tokens()->add_ids(1);
                    }});
  rows.push_back(
      {"LongText", "prompt has 33 tokens", [](R& r) { r.set_text(std::string(32, 'x')); }});
  rows.push_back({"HugeText", "prompt text", [](R& r) { r.set_text(std::string(5 << 20, 'x')); }});
  for (uint32_t n : {0u, 17u, std::numeric_limits<uint32_t>::max()})
    rows.push_back({"N", "n is", [n](R& r) { r.set_n(n); }});
  rows.push_back({"ResumeSamples", "resume_tokens", [](R& r) {
                    r.set_n(2);
                    r.add_resume_tokens(1);
                  }});
  rows.push_back(
      {"ResumeSeed", "resume_tokens needs sampling.seed", [](R& r) { r.add_resume_tokens(1); }});
  rows.push_back({"ResumeId", "resume_tokens", [](R& r) { r.add_resume_tokens(kVocab); }});
  rows.push_back({"ResumeLong", "resume_tokens has 3 tokens", [](R& r) {
                    r.mutable_sampling()->set_seed(1);
                    r.mutable_stopping()->set_max_tokens(2);
                    for (int i = 0; i < 3; ++i) r.add_resume_tokens(1);
                  }});
  rows.push_back(
      {"Logprobs", "output.logprobs", [](R& r) { r.mutable_output()->set_logprobs(21); }});
  return rows;
}

std::vector<BadField> BadScheduling() {
  std::vector<BadField> rows;
  for (int32_t priority : {-101, 101, std::numeric_limits<int32_t>::min()})
    rows.push_back({"Priority", "scheduling.priority",
                    [priority](R& r) { r.mutable_scheduling()->set_priority(priority); }});
  for (double seconds : {-0.1, 1.1e6, double{kNan}, double{kInf}, -double{kInf}})
    rows.push_back({"QueueTimeout", "scheduling.queue_timeout_seconds", [seconds](R& r) {
                      r.mutable_scheduling()->set_queue_timeout_seconds(seconds);
                    }});
  rows.push_back({"CacheSalt", "scheduling.cache_salt",
                  [](R& r) { r.mutable_scheduling()->set_cache_salt(std::string(257, 'x')); }});
  return rows;
}

std::string RowName(const testing::TestParamInfo<BadField>& row) {
  return std::string(row.param.name) + std::to_string(row.index);
}

INSTANTIATE_TEST_SUITE_P(Sampling, BadFieldTest, testing::ValuesIn(BadSampling()), RowName);
INSTANTIATE_TEST_SUITE_P(Stopping, BadFieldTest, testing::ValuesIn(BadStopping()), RowName);
INSTANTIATE_TEST_SUITE_P(Scheduling, BadFieldTest, testing::ValuesIn(BadScheduling()), RowName);
INSTANTIATE_TEST_SUITE_P(Prompt, BadFieldTest, testing::ValuesIn(BadPrompt()), RowName);

TEST_F(ValidationTest, TheSmallerVocabularyCounts) {
  model_.info.vocab = 100;  // the model knows less than the tokenizer
  request_.mutable_tokens()->add_ids(100);
  EXPECT_EQ(Parse().status().code(), absl::StatusCode::kInvalidArgument);
  request_.set_text("~");  // 126, and BOS 257
  EXPECT_EQ(Parse().status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace penstock
