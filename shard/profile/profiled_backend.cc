#include "shard/profile/profiled_backend.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "shard/backend/forwarding_backend.h"

namespace penstock {
namespace {

double Bytes(const Matrix& m) {
  if (m.data == nullptr) return 0;
  return static_cast<double>(m.rows) * static_cast<double>(m.cols) *
         static_cast<double>(SizeOf(m.dtype));
}

// A product of `rows` rows that touches `activations` bytes beside the weight.
OperationCall Product(std::string_view name, int64_t rows, const Weight& weight,
                      double activations) {
  return {.name = name,
          .kind = OperationKind::kProduct,
          .inputs = weight.cols(),
          .outputs = weight.rows(),
          .bytes = static_cast<double>(weight.bytes()) + activations,
          .flops = 2.0 * static_cast<double>(rows) * static_cast<double>(weight.rows()) *
                   static_cast<double>(weight.cols())};
}

// Rows times the keys that they see.
double KeysSeen(const DeviceBatch& batch, const AttentionShape& shape) {
  double keys = 0;
  for (int64_t i = 0; i < batch.positions.cols; ++i) {
    const int32_t position = batch.positions.I32()[i];
    keys += shape.window > 0 ? std::min(position + 1, shape.window) : position + 1;
  }
  return keys;
}

// Keys and values that some row of their sequence sees, once each.
double KvBytes(const DeviceBatch& batch, const AttentionShape& shape, const KvCacheShape& cache) {
  double tokens = 0;
  for (int64_t s = 0; s < batch.seqs(); ++s) {
    const int32_t context = batch.context_lens.I32()[s];
    const int32_t rows = batch.seq_begin.I32()[s + 1] - batch.seq_begin.I32()[s];
    tokens += shape.window > 0 ? std::min(context, shape.window + rows - 1) : context;
  }
  return tokens * 2 * shape.kv_heads * shape.head_dim * static_cast<double>(SizeOf(cache.dtype));
}

// Runs an operation and adds what it has cost.
class Stopwatch {
 public:
  explicit Stopwatch(OperationLog* log) : log_(log) {}

  template <typename Run>
  void Time(const OperationCall& call, Run run) const {
    const auto begin = std::chrono::steady_clock::now();
    run();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    log_->Add(call, seconds.count());
  }
  template <typename Run>
  void Other(std::string_view name, double bytes, Run run) const {
    Time({.name = name, .bytes = bytes}, run);
  }

 private:
  OperationLog* const log_;
};

class ProfiledDense final : public DenseOps {
 public:
  ProfiledDense(DenseOps& real, Stopwatch watch) : real_(real), watch_(watch) {}

  void Embed(const Weight& table, Matrix ids, int32_t first_id, Matrix out) override {
    watch_.Other("Embed", 2 * Bytes(out), [&] { real_.Embed(table, ids, first_id, out); });
  }
  void MatMul(Matrix x, const Weight& weight, Matrix bias, Matrix out) override {
    watch_.Time(Product("MatMul", x.rows, weight, Bytes(x) + Bytes(out)),
                [&] { real_.MatMul(x, weight, bias, out); });
  }
  void MatMulSiluMul(Matrix x, const Weight& weight, Matrix bias, Matrix gate_up,
                     Matrix out) override {
    watch_.Time(Product("MatMulSiluMul", x.rows, weight, Bytes(x) + Bytes(out)),
                [&] { real_.MatMulSiluMul(x, weight, bias, gate_up, out); });
  }
  void MatMulActivate(Matrix x, const Weight& weight, Matrix bias, Activation activation,
                      Matrix out) override {
    watch_.Time(Product("MatMulActivate", x.rows, weight, Bytes(x) + Bytes(out)),
                [&] { real_.MatMulActivate(x, weight, bias, activation, out); });
  }
  void RmsNorm(Matrix x, Matrix weight, float eps, Matrix out) override {
    watch_.Other("RmsNorm", 2 * Bytes(x), [&] { real_.RmsNorm(x, weight, eps, out); });
  }
  void AddRmsNorm(Matrix delta, Matrix weight, float eps, Matrix residual, Matrix out) override {
    watch_.Other("AddRmsNorm", 4 * Bytes(delta),
                 [&] { real_.AddRmsNorm(delta, weight, eps, residual, out); });
  }
  void HeadRmsNorm(Matrix weight, float eps, int32_t head_dim, Matrix inout) override {
    watch_.Other("HeadRmsNorm", 2 * Bytes(inout),
                 [&] { real_.HeadRmsNorm(weight, eps, head_dim, inout); });
  }
  void Add(Matrix delta, Matrix inout) override {
    watch_.Other("Add", 3 * Bytes(delta), [&] { real_.Add(delta, inout); });
  }
  void SiluMul(Matrix gate_up, Matrix out) override {
    watch_.Other("SiluMul", 3 * Bytes(out), [&] { real_.SiluMul(gate_up, out); });
  }
  void GatherRows(Matrix x, Matrix rows, Matrix out) override {
    watch_.Other("GatherRows", 2 * Bytes(out), [&] { real_.GatherRows(x, rows, out); });
  }
  void Copy(Matrix from, Matrix to) override {
    watch_.Other("Copy", 2 * Bytes(to), [&] { real_.Copy(from, to); });
  }

 private:
  DenseOps& real_;
  const Stopwatch watch_;
};

class ProfiledAttention final : public AttentionOps {
 public:
  ProfiledAttention(AttentionOps& real, const KvCacheShape& cache, Stopwatch watch)
      : real_(real), cache_(cache), watch_(watch) {}

  void RopeAndCache(Matrix qkv, const DeviceBatch& batch, const RopeTable& rope,
                    const AttentionShape& shape, KvCache& cache) override {
    watch_.Other("RopeAndCache", 2 * Bytes(qkv),
                 [&] { real_.RopeAndCache(qkv, batch, rope, shape, cache); });
  }
  void Attention(Matrix q, const KvCache& cache, const DeviceBatch& batch,
                 const AttentionShape& shape, Matrix out) override {
    watch_.Time({.name = "Attention",
                 .kind = OperationKind::kAttention,
                 .bytes = KvBytes(batch, shape, cache_) + Bytes(q) + Bytes(out),
                 .flops = 4.0 * KeysSeen(batch, shape) * static_cast<double>(q.cols)},
                [&] { real_.Attention(q, cache, batch, shape, out); });
  }

 private:
  AttentionOps& real_;
  const KvCacheShape& cache_;
  const Stopwatch watch_;
};

class ProfiledEncoder final : public EncoderOps {
 public:
  ProfiledEncoder(EncoderOps& real, Stopwatch watch) : real_(real), watch_(watch) {}

  void LayerNorm(Matrix x, Matrix weight, Matrix bias, float eps, Matrix out) override {
    watch_.Other("LayerNorm", 2 * Bytes(x), [&] { real_.LayerNorm(x, weight, bias, eps, out); });
  }
  void AddLayerNorm(Matrix delta, Matrix weight, Matrix bias, float eps, Matrix inout) override {
    watch_.Other("AddLayerNorm", 3 * Bytes(delta),
                 [&] { real_.AddLayerNorm(delta, weight, bias, eps, inout); });
  }
  void Activate(Activation activation, Matrix inout) override {
    watch_.Other("Activate", 2 * Bytes(inout), [&] { real_.Activate(activation, inout); });
  }
  void Attention(Matrix qkv, const DeviceBatch& batch, const AttentionShape& shape,
                 Matrix out) override {
    double pairs = 0;
    for (int64_t s = 0; s + 1 < batch.seq_begin.cols; ++s) {
      const double rows = batch.seq_begin.I32()[s + 1] - batch.seq_begin.I32()[s];
      pairs += rows * rows;
    }
    watch_.Time({.name = "Attention",
                 .kind = OperationKind::kAttention,
                 .bytes = Bytes(qkv) + Bytes(out),
                 .flops = 4.0 * pairs * static_cast<double>(out.cols)},
                [&] { real_.Attention(qkv, batch, shape, out); });
  }
  void MeanRows(Matrix x, Matrix seq_begin, Matrix out) override {
    watch_.Other("MeanRows", Bytes(x) + Bytes(out), [&] { real_.MeanRows(x, seq_begin, out); });
  }
  void NormalizeRows(Matrix inout) override {
    watch_.Other("NormalizeRows", 2 * Bytes(inout), [&] { real_.NormalizeRows(inout); });
  }

 private:
  EncoderOps& real_;
  const Stopwatch watch_;
};

class ProfiledSampling final : public SamplingOps {
 public:
  ProfiledSampling(SamplingOps& real, Stopwatch watch) : real_(real), watch_(watch) {}

  void Assign(std::span<const SlotAssignment> assignments) override { real_.Assign(assignments); }
  void Sample(Matrix logits, int32_t vocab, std::span<const SampleRow> rows,
              std::vector<SampledToken>* out) override {
    watch_.Other("Sample", Bytes(logits), [&] { real_.Sample(logits, vocab, rows, out); });
  }

 private:
  SamplingOps& real_;
  const Stopwatch watch_;
};

class ProfiledBackend final : public ForwardingBackend {
 public:
  ProfiledBackend(std::unique_ptr<Backend> real, OperationLog* log)
      : ForwardingBackend(std::move(real)),
        dense_(this->real().dense(), Stopwatch(log)),
        attention_(this->real().attention(), cache_, Stopwatch(log)),
        encoder_(this->real().encoder(), Stopwatch(log)),
        sampling_(this->real().sampling(), Stopwatch(log)) {}

  DenseOps& dense() override { return dense_; }
  AttentionOps& attention() override { return attention_; }
  EncoderOps& encoder() override { return encoder_; }
  SamplingOps& sampling() override { return sampling_; }
  absl::StatusOr<std::unique_ptr<KvCache>> MakeKvCache(const KvCacheShape& shape) override {
    cache_ = shape;  // all layers of a rank have the same
    return ForwardingBackend::MakeKvCache(shape);
  }

 private:
  KvCacheShape cache_;
  ProfiledDense dense_;
  ProfiledAttention attention_;
  ProfiledEncoder encoder_;
  ProfiledSampling sampling_;
};

}  // namespace

std::unique_ptr<Backend> MakeProfiledBackend(std::unique_ptr<Backend> real, OperationLog* log) {
  return std::make_unique<ProfiledBackend>(std::move(real), log);
}

}  // namespace penstock
