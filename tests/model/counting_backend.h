#pragma once

#include <memory>
#include <string>
#include <utility>

#include "shard/backend/backend.h"

namespace penstock {

// A backend that adds up what is asked of it.
class CountingBackend final : public Backend {
 public:
  explicit CountingBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  DenseOps& dense() override { return inner_->dense(); }
  AttentionOps& attention() override { return inner_->attention(); }
  EncoderOps& encoder() override { return inner_->encoder(); }
  SamplingOps& sampling() override { return inner_->sampling(); }
  absl::StatusOr<OwnedMatrix> Allocate(int64_t rows, int64_t cols, DType dtype) override {
    bytes += rows * cols * static_cast<int64_t>(SizeOf(dtype));
    return inner_->Allocate(rows, cols, dtype);
  }
  absl::StatusOr<std::unique_ptr<KvCache>> MakeKvCache(const KvCacheShape& shape) override {
    return inner_->MakeKvCache(shape);
  }
  absl::StatusOr<std::unique_ptr<Weight>> MakeWeight(Matrix host) override {
    auto weight = inner_->MakeWeight(host);
    if (weight.ok()) bytes += (*weight)->bytes();
    ++weights;
    return weight;
  }
  int64_t KvCacheBytes(const KvCacheShape& shape) const override {
    return inner_->KvCacheBytes(shape);
  }
  int64_t WeightBytes(int64_t rows, int64_t cols, DType dtype) const override {
    return inner_->WeightBytes(rows, cols, dtype);
  }
  void Upload(const void* host, Matrix to) override { inner_->Upload(host, to); }
  void Download(Matrix from, void* host) override { inner_->Download(from, host); }
  absl::Status Sync() override { return inner_->Sync(); }
  std::string signature() const override { return inner_->signature(); }

  int64_t bytes = 0;
  int weights = 0;

 private:
  std::unique_ptr<Backend> inner_;
};

}  // namespace penstock
