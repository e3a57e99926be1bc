#include "shard/backend/cpu/cpu_backend.h"

#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shard/backend/cpu/attention.h"
#include "shard/backend/cpu/cpu_context.h"
#include "shard/backend/cpu/dense.h"
#include "shard/backend/cpu/encoder.h"
#include "shard/backend/cpu/kv_cache.h"
#include "shard/backend/cpu/memory.h"
#include "shard/backend/cpu/packed_weight.h"
#include "shard/backend/cpu/sampler.h"
#include "shard/base/cpus.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

class CpuBackend : public Backend {
 public:
  CpuBackend(const Isa& isa, bool bf16_dot, int threads, std::chrono::microseconds spin)
      : pool_(threads, spin),
        context_{isa, bf16_dot, &pool_, absl::OkStatus()},
        dense_(context_),
        attention_(context_),
        encoder_(context_),
        sampler_(context_) {}

  DenseOps& dense() override { return dense_; }
  AttentionOps& attention() override { return attention_; }
  EncoderOps& encoder() override { return encoder_; }
  SamplingOps& sampling() override { return sampler_; }

  absl::StatusOr<OwnedMatrix> Allocate(int64_t rows, int64_t cols, DType dtype) override {
    const int64_t bytes = ByteCount(rows, cols, static_cast<int64_t>(SizeOf(dtype)));
    if (rows < 0 || cols < 0)
      return absl::InvalidArgumentError(absl::StrCat("matrix [", rows, ", ", cols, "]"));
    if (bytes < 0)
      return absl::ResourceExhaustedError(
          absl::StrCat("matrix [", rows, ", ", cols, "] is larger than any memory"));
    ASSIGN_OR_RETURN(HostMemory memory, AllocateZeroed(bytes));
    const Matrix view = {memory.get(), rows, cols, cols, dtype};
    return OwnedMatrix{view, std::move(memory)};
  }

  absl::StatusOr<std::unique_ptr<KvCache>> MakeKvCache(const KvCacheShape& shape) override {
    return CpuKvCache::Make(shape);
  }

  absl::StatusOr<std::unique_ptr<Weight>> MakeWeight(Matrix host) override {
    return PackedWeight::Pack(host, InPairs(host.dtype), pool_);
  }

  int64_t KvCacheBytes(const KvCacheShape& shape) const override {
    return CpuKvCache::BytesFor(shape);
  }
  int64_t WeightBytes(int64_t rows, int64_t cols, DType dtype) const override {
    return PackedWeight::BytesFor(rows, cols, dtype, InPairs(dtype));
  }

  void Upload(const void* host, Matrix to) override {
    const size_t row_bytes = static_cast<size_t>(to.cols) * SizeOf(to.dtype);
    for (int64_t row = 0; row < to.rows && row_bytes > 0; ++row)
      std::memcpy(to.At(row, 0),
                  static_cast<const std::byte*>(host) + static_cast<size_t>(row) * row_bytes,
                  row_bytes);
  }

  void Download(Matrix from, void* host) override {
    const size_t row_bytes = static_cast<size_t>(from.cols) * SizeOf(from.dtype);
    for (int64_t row = 0; row < from.rows && row_bytes > 0; ++row)
      std::memcpy(static_cast<std::byte*>(host) + static_cast<size_t>(row) * row_bytes,
                  from.At(row, 0), row_bytes);
  }

  absl::Status Sync() override { return context_.status; }

  // Instruction sets do not differ in f32; the version is of the kernels' arithmetic.
  std::string signature() const override {
    return context_.bf16_dot ? "cpu/bf16/v1" : "cpu/fp32/v1";
  }

 private:
  bool InPairs(DType dtype) const { return context_.bf16_dot && dtype == DType::kBF16; }

  ThreadPool pool_;
  CpuContext context_;
  CpuDense dense_;
  CpuAttention attention_;
  CpuEncoder encoder_;
  CpuSampler sampler_;
};

absl::StatusOr<bool> UsesBf16Dot(const std::string& compute, const Isa& isa) {
  if (compute == "auto" || compute == "fp32") return false;
  if (compute != "bf16")
    return absl::InvalidArgumentError(
        absl::StrCat("compute '", compute, "' is unknown; there are: auto, fp32, bf16"));
  if (isa.bf16_dot == nullptr)
    return absl::InvalidArgumentError(absl::StrCat(
        "compute 'bf16' needs the instruction set avx512bf16; this backend uses ", isa.name));
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeCpuBackend(const CpuOptions& options) {
  constexpr int kMostThreads = 1024;
  ASSIGN_OR_RETURN(const Isa isa, ChooseIsa(options.isa));
  ASSIGN_OR_RETURN(const bool bf16_dot, UsesBf16Dot(options.compute, isa));
  if (options.threads < 0 || options.threads > kMostThreads)
    return absl::InvalidArgumentError(
        absl::StrCat("threads must be 0 to ", kMostThreads, ", is ", options.threads));
  const int cpus = AvailableCpus();
  const int threads = options.threads == 0 ? cpus : options.threads;
  const std::chrono::microseconds spin(threads > cpus ? 0 : options.spin_us);
  return std::make_unique<CpuBackend>(isa, bf16_dot, threads, spin);
}

}  // namespace penstock
