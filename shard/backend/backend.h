#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/backend/matrix.h"
#include "shard/backend/ops.h"

namespace penstock {

struct KvCacheShape {
  int32_t blocks = 0;
  int32_t block_size = 16;  // tokens
  int32_t kv_heads = 0;     // on this rank
  int32_t head_dim = 0;
  DType dtype = DType::kF16;
};

// One device's memory, command queue and kernels; one instance per rank, used by one thread at a
// time.
//
// Work is queued in order and may not have happened when a call returns. Its errors are sticky:
// Sync() returns the first one from then on, so model code reads as math.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual DenseOps& dense() = 0;
  virtual AttentionOps& attention() = 0;
  virtual EncoderOps& encoder() = 0;
  virtual SamplingOps& sampling() = 0;

  // ResourceExhausted when the device has no room.
  virtual absl::StatusOr<OwnedMatrix> Allocate(int64_t rows, int64_t cols, DType dtype) = 0;
  virtual absl::StatusOr<std::unique_ptr<KvCache>> MakeKvCache(const KvCacheShape& shape) = 0;
  // Packs a host matrix (row-major [outputs, inputs], f32, f16 or bf16) as a weight of the same
  // dtype.
  virtual absl::StatusOr<std::unique_ptr<Weight>> MakeWeight(Matrix host) = 0;

  // Bytes that MakeKvCache and MakeWeight would take, padding included, without taking them.
  virtual int64_t KvCacheBytes(const KvCacheShape& shape) const = 0;
  virtual int64_t WeightBytes(int64_t rows, int64_t cols, DType dtype) const = 0;

  virtual void Upload(const void* host, Matrix to) = 0;  // host rows are packed
  virtual void Download(Matrix from, void* host) = 0;    // complete after Sync()

  // Waits for the queue to drain; the first error since creation.
  virtual absl::Status Sync() = 0;

  // What decides the bits of a result: instruction set or SM, kernel version, compute mode. Ranks
  // of one group must agree.
  virtual std::string signature() const = 0;
};

}  // namespace penstock
