#include "scheduler/admission.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

absl::Status CheckId(absl::string_view field, int32_t id, int32_t vocab) {
  if (id >= 0 && id < vocab) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": token id ", id, " is outside the vocabulary [0, ", vocab, ")"));
}

absl::Status CheckIds(absl::string_view field, const std::vector<int32_t>& ids, int32_t vocab) {
  for (int32_t id : ids) RETURN_IF_ERROR(CheckId(field, id, vocab));
  return absl::OkStatus();
}

absl::Status CheckLengths(const GenerateRequest& request, const ExecutorInfo& info) {
  if (request.prompt.empty()) return absl::InvalidArgumentError("prompt: it has no token");
  if (request.max_tokens < 1)
    return absl::InvalidArgumentError(
        absl::StrCat("max_tokens: ", request.max_tokens, " is below 1"));
  if (!(request.min_tokens >= 0 && request.min_tokens <= request.max_tokens))
    return absl::InvalidArgumentError(
        absl::StrCat("min_tokens: ", request.min_tokens,
                     " is outside [0, max_tokens = ", request.max_tokens, "]"));
  if (request.generated.size() > static_cast<size_t>(request.max_tokens))
    return absl::InvalidArgumentError(
        absl::StrCat("generated: ", request.generated.size(),
                     " tokens, more than max_tokens = ", request.max_tokens));
  const int64_t longest = static_cast<int64_t>(request.prompt.size()) + request.max_tokens;
  const int64_t capacity = int64_t{info.kv_blocks} * info.kv_block_size;
  if (longest > info.max_context || longest > capacity)
    return absl::InvalidArgumentError(absl::StrCat(
        "prompt of ", request.prompt.size(), " tokens + max_tokens ", request.max_tokens, " = ",
        longest, " exceeds the limit of ", std::min<int64_t>(info.max_context, capacity),
        " tokens (context ", info.max_context, ", KV cache ", capacity, ")"));
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRequest(const GenerateRequest& request, const ExecutorInfo& info) {
  RETURN_IF_ERROR(CheckLengths(request, info));
  RETURN_IF_ERROR(CheckIds("prompt", request.prompt, info.vocab));
  RETURN_IF_ERROR(CheckIds("generated", request.generated, info.vocab));
  RETURN_IF_ERROR(CheckIds("stop_tokens", request.stop_tokens, info.vocab));
  RETURN_IF_ERROR(CheckIds("masked_until_min", request.sampling.masked_until_min, info.vocab));
  for (const auto& [id, bias] : request.sampling.logit_bias)
    RETURN_IF_ERROR(CheckId("logit_bias", id, info.vocab));
  return absl::OkStatus();
}

}  // namespace penstock
