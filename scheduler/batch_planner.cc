#include "scheduler/batch_planner.h"

#include <algorithm>

namespace penstock {

// One stage always has its step. Several need one more step than stages, since batches take unequal
// times.
BatchPlanner::BatchPlanner(const BatchLimits& limits)
    : limits_(limits), wanted_in_flight_(limits.stages == 1 ? 1 : limits.max_in_flight) {}

// A long silence counts as a few gaps only, so that a burst behind it is noticed soon.
void BatchPlanner::OnArrival(absl::Time arrival) {
  constexpr double kWeight = 0.2;  // of the newest gap
  const absl::Duration gap =
      std::clamp(arrival - last_arrival_, absl::ZeroDuration(), 10 * limits_.max_queue_delay);
  arrival_gap_ = (1 - kWeight) * arrival_gap_ + kWeight * gap;
  last_arrival_ = arrival;
}

BatchPlan BatchPlanner::Plan(const RequestQueue& queue, int32_t steps_in_flight,
                             absl::Time now) const {
  if (queue.empty() || steps_in_flight >= limits_.max_in_flight) return {};
  const QueuedRequest& head = *queue.by_key().begin()->second;
  if (head.failures >= kSuspectFailures) {
    if (steps_in_flight > 0) return {};
    return {.requests = {&head}, .reason = FlushReason::kIdle, .alone = true};
  }
  const bool wanted = steps_in_flight < wanted_in_flight_;
  Pick pick = Fill(queue, limits_.max_tokens);
  const int32_t preferred = PreferredSize(pick.requests.size());
  if (preferred > 0 && (wanted || preferred == limits_.preferred_sizes.back())) {
    pick.requests.resize(static_cast<size_t>(preferred));
    return {.requests = std::move(pick.requests), .reason = FlushReason::kPreferred};
  }
  const bool due = steps_in_flight > 0 || now >= NextFlush(queue);
  if (!pick.full && !(wanted && due)) return {};
  FlushReason reason = FlushReason::kFull;
  if (!pick.full)
    reason =
        steps_in_flight == 0 && limits_.max_queue_delay > absl::ZeroDuration() && expects_company()
            ? FlushReason::kTimeout
            : FlushReason::kIdle;
  const int32_t parts = wanted_in_flight_ - steps_in_flight;
  if (parts > 1 && limits_.preferred_sizes.empty()) pick = FillShare(queue, parts);
  return {.requests = std::move(pick.requests), .reason = reason};
}

absl::Time BatchPlanner::NextFlush(const RequestQueue& queue) const {
  if (!expects_company() && !queue.empty()) return absl::InfinitePast();
  return queue.oldest_arrival() + limits_.max_queue_delay;
}

BatchPlanner::Pick BatchPlanner::Fill(const RequestQueue& queue, int64_t max_tokens) const {
  Pick pick;
  int64_t room = max_tokens;
  int32_t passed_over = 0;
  for (const auto& [key, request] : queue.by_key()) {
    if (request->failures >= kSuspectFailures) continue;  // its turn comes as the head
    if (pick.requests.empty() || request->tokens() <= room) {
      pick.requests.push_back(request.get());
      room -= request->tokens();
    } else if (++passed_over > kLookAhead) {
      break;
    }
    if (room <= 0 || pick.requests.size() == static_cast<size_t>(limits_.max_requests)) break;
  }
  pick.full = room <= 0 || passed_over > 0 ||
              pick.requests.size() == static_cast<size_t>(limits_.max_requests);
  return pick;
}

// One of the parts into which what waits is cut.
BatchPlanner::Pick BatchPlanner::FillShare(const RequestQueue& queue, int32_t parts) const {
  const int64_t share = std::max(kMinShare, (queue.tokens() + parts - 1) / parts);
  return Fill(queue, std::min(share, limits_.max_tokens));
}

// The largest preferred size that `size` reaches; 0: none.
int32_t BatchPlanner::PreferredSize(size_t size) const {
  int32_t best = 0;
  for (int32_t preferred : limits_.preferred_sizes)
    if (static_cast<size_t>(preferred) <= size) best = preferred;
  return best;
}

}  // namespace penstock
