#include "scheduler/delivery_order.h"

namespace penstock {

void DeliveryOrder::Expect(uint64_t order) {
  if (preserve_) expected_.emplace(order, std::nullopt);
}

void DeliveryOrder::Deliver(uint64_t order, std::shared_ptr<EncodeReply> reply,
                            EncodeReply::Result result) {
  if (!preserve_) return reply->Close(std::move(result));
  if (result.output.ok()) {
    expected_[order] = Held(std::move(reply), std::move(result));
  } else {
    expected_.erase(order);
    reply->Close(std::move(result));
  }
  while (!expected_.empty() && expected_.begin()->second) {
    Held held = *std::move(expected_.begin()->second);
    expected_.erase(expected_.begin());
    held.first->Close(std::move(held.second));
  }
}

}  // namespace penstock
