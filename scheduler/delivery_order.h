#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "scheduler/encode_reply.h"

namespace penstock {

// Closes replies; when order is to be kept, in the order of arrival: a result is held back until
// everything older has ended. A failure does not wait, and keeps nobody waiting. Not thread-safe.
class DeliveryOrder {
 public:
  explicit DeliveryOrder(bool preserve) : preserve_(preserve) {}

  // A request has arrived; `order` is larger than all before.
  void Expect(uint64_t order);
  // It has ended.
  void Deliver(uint64_t order, std::shared_ptr<EncodeReply> reply, EncodeReply::Result result);

 private:
  using Held = std::pair<std::shared_ptr<EncodeReply>, EncodeReply::Result>;

  const bool preserve_;
  std::map<uint64_t, std::optional<Held>> expected_;  // nullopt: not ended yet
};

}  // namespace penstock
