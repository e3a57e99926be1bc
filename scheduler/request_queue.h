#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "scheduler/batch_observer.h"
#include "scheduler/encode_reply.h"
#include "scheduler/encode_request.h"

namespace penstock {

// A one-shot request on its way. Owned by the queue while it waits, by its step while it runs.
struct QueuedRequest {
  EncodeRequest request;
  std::shared_ptr<EncodeReply> reply;
  uint64_t order = 0;  // of arrival; unique
  absl::Time key;      // the smaller goes first; see RequestQueue
  bool delayed = false;
  int32_t failures = 0;  // failed steps that named it
  EncodeTimes times;

  int64_t tokens() const { return static_cast<int64_t>(request.tokens.size()); }
};

// Requests that wait, in the order in which they should run: by arrival + priority * ageing, fixed
// when they arrive, so that whoever waits long enough comes first whatever arrives later. Adding
// and taking cost O(log n). Not thread-safe, has no clock.
class RequestQueue {
 public:
  using Key = std::pair<absl::Time, uint64_t>;  // key, order
  using ByKey = std::map<Key, std::unique_ptr<QueuedRequest>>;

  // `ageing` of waiting makes up for one level of priority; 0: nothing does. With `by_arrival`,
  // priorities have no say.
  RequestQueue(absl::Duration ageing, bool by_arrival)
      : ageing_(ageing > absl::ZeroDuration() ? ageing : kForever), by_arrival_(by_arrival) {}

  void Add(std::unique_ptr<QueuedRequest> request);  // a new one
  // One whose step failed, to its old place. It has left the queue before, so that only its
  // deadline, not its start_deadline, still counts.
  void Return(std::unique_ptr<QueuedRequest> request);
  std::unique_ptr<QueuedRequest> Take(const QueuedRequest& request);

  // Takes those that are to end because a time of theirs is not after `now`; moves those that are
  // to be delayed.
  std::vector<std::unique_ptr<QueuedRequest>> TakeExpired(absl::Time now);
  // Takes those among the next `checks`, in turn, that were cancelled: a queue of thousands must
  // not slow every step down.
  std::vector<std::unique_ptr<QueuedRequest>> TakeCancelled(size_t checks);

  const ByKey& by_key() const { return by_key_; }
  bool empty() const { return by_key_.empty(); }
  size_t size() const { return by_key_.size(); }
  int64_t tokens() const { return tokens_; }
  // Infinitely far when there is none.
  absl::Time oldest_arrival() const;
  absl::Time next_expiry() const;

 private:
  static constexpr absl::Duration kForever = absl::Hours(24 * 365);  // but sums stay finite

  absl::Time KeyOf(const QueuedRequest& request) const;
  static absl::Time ExpiryOf(const QueuedRequest& request);
  void Insert(std::unique_ptr<QueuedRequest> request);
  void Delay(QueuedRequest& request, absl::Time now);

  const absl::Duration ageing_;
  const bool by_arrival_;
  ByKey by_key_;
  std::set<Key> by_arrival_time_;           // arrival, order
  std::map<Key, QueuedRequest*> expiring_;  // expiry, order; those that can expire
  int64_t tokens_ = 0;
  Key next_check_;  // where TakeCancelled goes on
};

}  // namespace penstock
