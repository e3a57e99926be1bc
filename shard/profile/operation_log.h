#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

enum class OperationKind : uint8_t { kProduct, kAttention, kOther };

// One call of an operation. `bytes` are of weights, cached keys and values, and activations, each
// read or written once; `flops` are multiplications and additions, 0 where they do not matter.
struct OperationCall {
  std::string_view name{};  // of a literal
  OperationKind kind = OperationKind::kOther;
  int64_t inputs = 0, outputs = 0;  // of the weight; 0: it has none
  double bytes = 0;
  double flops = 0;
};

// All calls of one operation with one shape.
struct OperationCost {
  std::string name{};  // "MatMul 576x960": inputs x outputs
  OperationKind kind = OperationKind::kOther;
  int64_t calls = 0;
  double seconds = 0;
  double bytes = 0;
  double flops = 0;
};

// What the operations of a backend have cost, in the order of their first calls. Only the first
// call of each makes a name, since this happens within the step that is measured. One thread's.
class OperationLog {
 public:
  void Add(const OperationCall& call, double seconds);
  void Clear();
  const std::vector<OperationCost>& operations() const { return operations_; }

 private:
  OperationCost& CostOf(const OperationCall& call);

  std::vector<OperationCall> seen_;  // the first call of each of operations_
  std::vector<OperationCost> operations_;
};

}  // namespace penstock
