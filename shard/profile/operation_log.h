#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock {

enum class OperationKind : uint8_t { kProduct, kAttention, kOther };

// All calls of one operation with one shape.
struct OperationCost {
  std::string name;  // "MatMul 576x960": inputs x outputs
  OperationKind kind = OperationKind::kOther;
  int64_t calls = 0;
  double seconds = 0;
  double bytes =
      0;  // of weights, cached keys and values, and activations: each read or written once
  double flops = 0;  // multiplications and additions; 0 where they do not matter
};

// What the operations of a backend have cost, in the order of their first calls. One thread's.
class OperationLog {
 public:
  void Add(const OperationCost& call);
  void Clear() { operations_.clear(); }
  const std::vector<OperationCost>& operations() const { return operations_; }

 private:
  std::vector<OperationCost> operations_;
};

}  // namespace penstock
