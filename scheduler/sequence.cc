#include "scheduler/sequence.h"

#include <algorithm>
#include <utility>

namespace penstock {

Sequence::Sequence(GenerateRequest request_in, std::shared_ptr<TokenStream> stream_in)
    : request(std::move(request_in)), stream(std::move(stream_in)) {
  tokens.reserve(request.prompt.size() + static_cast<size_t>(request.max_tokens));
  tokens = request.prompt;
  tokens.insert(tokens.end(), request.generated.begin(), request.generated.end());
  times.arrival = request.arrival;
}

FinishReason Sequence::Ending() const {
  if (generated() == 0) return FinishReason::kNone;
  const auto& stops = request.stop_tokens;
  if (std::find(stops.begin(), stops.end(), tokens.back()) != stops.end())
    return FinishReason::kStop;
  return generated() >= request.max_tokens ? FinishReason::kLength : FinishReason::kNone;
}

SlotAssignment Sequence::Assignment() const {
  SlotAssignment assignment{.slot = slot,
                            .params = request.sampling,
                            .sample_index = request.sample_index,
                            .prompt = {},
                            .generated = {}};
  if (request.sampling.has_penalties()) {
    assignment.prompt = request.prompt;
    assignment.generated.assign(tokens.begin() + static_cast<int64_t>(request.prompt.size()),
                                tokens.end());
  }
  return assignment;
}

}  // namespace penstock
