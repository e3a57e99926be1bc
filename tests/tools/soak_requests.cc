#include "tests/tools/soak_requests.h"

#include <functional>
#include <limits>

namespace penstock {
namespace {

v1::GenerateRequest Plain(const std::string& text, uint32_t max_tokens) {
  v1::GenerateRequest request;
  request.set_text(text);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_max_tokens(max_tokens);
  return request;
}

v1::GenerateRequest Seeded(const std::string& text, uint32_t max_tokens, uint64_t seed) {
  v1::GenerateRequest request = Plain(text, max_tokens);
  request.mutable_sampling()->set_temperature(0.9f);
  request.mutable_sampling()->set_seed(seed);
  return request;
}

using Spoiler = std::function<void(v1::GenerateRequest*)>;

const std::vector<Spoiler>& Spoilers() {
  using R = v1::GenerateRequest;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  static const std::vector<Spoiler> spoilers = {
      [](R* r) { r->clear_text(); },
      [](R* r) { r->set_text(""); },
      [](R* r) { r->mutable_tokens(); },
      [](R* r) { r->mutable_tokens()->add_ids(-1); },
      [](R* r) { r->mutable_tokens()->add_ids(std::numeric_limits<int32_t>::max()); },
      [](R* r) { r->mutable_sampling()->set_temperature(-1); },
      [](R* r) { r->mutable_sampling()->set_temperature(kNan); },
      [](R* r) { r->mutable_sampling()->set_top_p(0); },
      [](R* r) { r->mutable_sampling()->set_top_p(1.5f); },
      [](R* r) { r->mutable_sampling()->set_min_p(-0.5f); },
      [](R* r) { r->mutable_sampling()->set_repetition_penalty(0); },
      [](R* r) { r->mutable_sampling()->set_presence_penalty(99); },
      [](R* r) { (*r->mutable_sampling()->mutable_logit_bias())[-7] = 1; },
      [](R* r) { (*r->mutable_sampling()->mutable_logit_bias())[1] = kNan; },
      [](R* r) { r->mutable_stopping()->set_max_tokens(1u << 31); },
      [](R* r) { r->mutable_stopping()->add_stop(""); },
      [](R* r) { r->mutable_stopping()->add_stop_token_ids(-5); },
      [](R* r) { r->mutable_output()->set_logprobs(1000); },
      [](R* r) { r->set_n(0); },
      [](R* r) { r->set_n(1u << 30); },
      [](R* r) { r->set_model("no such model"); },
      [](R* r) { r->add_resume_tokens(-1); },
      [](R* r) { r->set_text(std::string(1 << 20, 'x')); },
  };
  return spoilers;
}

}  // namespace

std::vector<v1::GenerateRequest> WellFormedRequests() {
  std::vector<v1::GenerateRequest> requests = {
      Plain("The river runs", 12),
      Plain("a", 20),
      Plain("A prompt that is a good deal longer than the others, so that it is cut into chunks.",
            8),
      Seeded("The river runs", 16, 1),
      Seeded("Water", 24, 2),
      Seeded("\xc3\xa9t\xc3\xa9 \xe6\xb0\xb4 \xf0\x9f\x92\xa7", 10, 3),
  };
  requests.push_back(Seeded("penalties", 18, 4));
  requests.back().mutable_sampling()->set_repetition_penalty(1.3f);
  requests.back().mutable_sampling()->set_frequency_penalty(0.5f);
  requests.push_back(Seeded("narrow", 14, 5));
  requests.back().mutable_sampling()->set_top_k(20);
  requests.back().mutable_sampling()->set_top_p(0.8f);
  requests.push_back(Seeded("two samples", 9, 6));
  requests.back().set_n(2);
  requests.push_back(Plain("stop at a space", 20));
  requests.back().mutable_stopping()->add_stop(" ");
  requests.push_back(Plain("with logprobs", 6));
  requests.back().mutable_output()->set_logprobs(3);
  v1::GenerateRequest ids = Seeded("", 15, 7);
  for (int32_t id = 5; id < 45; ++id) ids.mutable_tokens()->add_ids(id);
  ids.mutable_stopping()->set_ignore_eos(true);
  requests.push_back(ids);
  return requests;
}

v1::GenerateRequest MalformedRequest(std::mt19937& random) {
  v1::GenerateRequest request = Plain("spoiled", 8);
  Spoilers()[random() % Spoilers().size()](&request);
  return request;
}

std::string RandomBytes(std::mt19937& random) {
  std::string bytes(1 + random() % 64, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

}  // namespace penstock
