#include "shard/profile/operation_log.h"

#include "absl/strings/str_cat.h"

namespace penstock {

void OperationLog::Add(const OperationCall& call, double seconds) {
  OperationCost& cost = CostOf(call);
  ++cost.calls;
  cost.seconds += seconds;
  cost.bytes += call.bytes;
  cost.flops += call.flops;
}

void OperationLog::Clear() {
  seen_.clear();
  operations_.clear();
}

OperationCost& OperationLog::CostOf(const OperationCall& call) {
  for (size_t i = 0; i < seen_.size(); ++i)
    if (seen_[i].inputs == call.inputs && seen_[i].outputs == call.outputs &&
        seen_[i].name == call.name)
      return operations_[i];
  seen_.push_back(call);
  OperationCost& cost = operations_.emplace_back();
  cost.name = std::string(call.name);
  if (call.outputs > 0) absl::StrAppend(&cost.name, " ", call.inputs, "x", call.outputs);
  cost.kind = call.kind;
  return cost;
}

}  // namespace penstock
