#include "shard/profile/operation_log.h"

#include <algorithm>

namespace penstock {

void OperationLog::Add(const OperationCost& call) {
  const auto same = [&](const OperationCost& each) { return each.name == call.name; };
  auto at = std::find_if(operations_.begin(), operations_.end(), same);
  if (at == operations_.end()) {
    operations_.push_back(call);
    return;
  }
  at->calls += call.calls;
  at->seconds += call.seconds;
  at->bytes += call.bytes;
  at->flops += call.flops;
}

}  // namespace penstock
