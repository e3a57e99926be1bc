#include "scheduler/request_queue.h"

#include <algorithm>

namespace penstock {

absl::Time RequestQueue::KeyOf(const QueuedRequest& request) const {
  if (by_arrival_) return request.request.arrival;
  return request.request.arrival + request.request.priority * ageing_;
}

absl::Time RequestQueue::ExpiryOf(const QueuedRequest& request) {
  const bool has_started = request.times.first_scheduled != absl::InfinitePast();
  if (has_started || request.delayed) return request.request.deadline;
  return std::min(request.request.deadline, request.request.start_deadline);
}

void RequestQueue::Add(std::unique_ptr<QueuedRequest> request) {
  request->key = KeyOf(*request);
  Insert(std::move(request));
}

void RequestQueue::Return(std::unique_ptr<QueuedRequest> request) { Insert(std::move(request)); }

void RequestQueue::Insert(std::unique_ptr<QueuedRequest> request) {
  QueuedRequest& waiting = *request;
  tokens_ += waiting.tokens();
  by_arrival_time_.emplace(waiting.request.arrival, waiting.order);
  const absl::Time expiry = ExpiryOf(waiting);
  if (expiry != absl::InfiniteFuture()) expiring_.emplace(Key{expiry, waiting.order}, &waiting);
  by_key_.emplace(Key{waiting.key, waiting.order}, std::move(request));
}

std::unique_ptr<QueuedRequest> RequestQueue::Take(const QueuedRequest& request) {
  const auto place = by_key_.find({request.key, request.order});
  std::unique_ptr<QueuedRequest> taken = std::move(place->second);
  by_key_.erase(place);
  by_arrival_time_.erase({taken->request.arrival, taken->order});
  expiring_.erase({ExpiryOf(*taken), taken->order});
  tokens_ -= taken->tokens();
  return taken;
}

std::vector<std::unique_ptr<QueuedRequest>> RequestQueue::TakeExpired(absl::Time now) {
  std::vector<std::unique_ptr<QueuedRequest>> expired;
  while (!expiring_.empty() && expiring_.begin()->first.first <= now) {
    QueuedRequest& request = *expiring_.begin()->second;
    const bool may_stay = request.request.on_timeout == TimeoutAction::kDelay && !request.delayed &&
                          request.request.deadline > now;
    if (may_stay) {
      Delay(request, now);
    } else {
      expired.push_back(Take(request));
    }
  }
  return expired;
}

// Behind all that wait now, but not behind what comes later: delayed is not starved.
void RequestQueue::Delay(QueuedRequest& request, absl::Time now) {
  const absl::Time last = by_key_.rbegin()->first.first;
  std::unique_ptr<QueuedRequest> moved = Take(request);
  moved->delayed = true;
  moved->key = std::max(now, last + absl::Nanoseconds(1));
  Insert(std::move(moved));
}

std::vector<std::unique_ptr<QueuedRequest>> RequestQueue::TakeCancelled(size_t checks) {
  std::vector<std::unique_ptr<QueuedRequest>> cancelled;
  auto place = by_key_.lower_bound(next_check_);
  for (checks = std::min(checks, by_key_.size()); checks > 0 && !by_key_.empty(); --checks) {
    if (place == by_key_.end()) place = by_key_.begin();
    const QueuedRequest& request = *place->second;
    ++place;
    if (request.reply->cancelled()) cancelled.push_back(Take(request));
  }
  next_check_ = place == by_key_.end() ? Key{absl::InfinitePast(), 0} : place->first;
  return cancelled;
}

absl::Time RequestQueue::oldest_arrival() const {
  return by_arrival_time_.empty() ? absl::InfiniteFuture() : by_arrival_time_.begin()->first;
}

absl::Time RequestQueue::next_expiry() const {
  return expiring_.empty() ? absl::InfiniteFuture() : expiring_.begin()->first.first;
}

}  // namespace penstock
