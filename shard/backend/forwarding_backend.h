#pragma once

#include <memory>
#include <string>
#include <utility>

#include "shard/backend/backend.h"

namespace penstock {

// A backend that leaves everything to `real`; what watches one overrides what it wants to see.
class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> real) : real_(std::move(real)) {}

  DenseOps& dense() override { return real_->dense(); }
  AttentionOps& attention() override { return real_->attention(); }
  EncoderOps& encoder() override { return real_->encoder(); }
  SamplingOps& sampling() override { return real_->sampling(); }
  absl::StatusOr<OwnedMatrix> Allocate(int64_t rows, int64_t cols, DType dtype) override {
    return real_->Allocate(rows, cols, dtype);
  }
  absl::StatusOr<std::unique_ptr<KvCache>> MakeKvCache(const KvCacheShape& shape) override {
    return real_->MakeKvCache(shape);
  }
  absl::StatusOr<std::unique_ptr<Weight>> MakeWeight(Matrix host) override {
    return real_->MakeWeight(host);
  }
  int64_t KvCacheBytes(const KvCacheShape& shape) const override {
    return real_->KvCacheBytes(shape);
  }
  int64_t WeightBytes(int64_t rows, int64_t cols, DType dtype) const override {
    return real_->WeightBytes(rows, cols, dtype);
  }
  void Upload(const void* host, Matrix to) override { real_->Upload(host, to); }
  void Download(Matrix from, void* host) override { real_->Download(from, host); }
  absl::Status Sync() override { return real_->Sync(); }
  std::string signature() const override { return real_->signature(); }

 protected:
  Backend& real() { return *real_; }

 private:
  const std::unique_ptr<Backend> real_;
};

}  // namespace penstock
