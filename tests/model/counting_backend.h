#pragma once

#include <memory>

#include "shard/backend/forwarding_backend.h"

namespace penstock {

// A backend that adds up what is asked of it.
class CountingBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;

  absl::StatusOr<OwnedMatrix> Allocate(int64_t rows, int64_t cols, DType dtype) override {
    bytes += rows * cols * static_cast<int64_t>(SizeOf(dtype));
    return ForwardingBackend::Allocate(rows, cols, dtype);
  }
  absl::StatusOr<std::unique_ptr<Weight>> MakeWeight(Matrix host) override {
    auto weight = ForwardingBackend::MakeWeight(host);
    if (weight.ok()) bytes += (*weight)->bytes();
    ++weights;
    return weight;
  }

  int64_t bytes = 0;
  int weights = 0;
};

}  // namespace penstock
