#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/instructions/workload.h"
#include "bench/support/attention_step.h"
#include "shard/backend/cpu/cpu_backend.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

constexpr int64_t kOutputs = 512, kInputs = 512;
constexpr int32_t kHeads = 8, kKvHeads = 2, kHeadDim = 64;
constexpr int32_t kVocab = 49152;

absl::StatusOr<std::unique_ptr<Backend>> MakeBackend() {
  return MakeCpuBackend({.threads = 1, .isa = kCountedIsa, .spin_us = 0});
}

// Numbers between -1 and 1 in no order that a loop could make use of.
void FillFloats(Matrix out) {
  uint32_t state = 1;
  float* to = static_cast<float*>(out.data);
  for (int64_t i = 0; i < out.rows * out.cols; ++i) {
    state = state * 1664525u + 1013904223u;  // Knuth and Lewis
    to[i] = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f;
  }
}

// Fails when what was computed is all zeros: then nothing was.
absl::Status CheckComputed(Backend& backend, const Matrix& out) {
  RETURN_IF_ERROR(backend.Sync());
  if (*static_cast<const float*>(out.data) == 0) return absl::InternalError("nothing was computed");
  return absl::OkStatus();
}

struct Product {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Weight> weight;
  OwnedMatrix x, out;
};

absl::StatusOr<Work> PrepareProduct(DType dtype, int64_t rows) {
  auto product = std::make_shared<Product>();
  ASSIGN_OR_RETURN(product->backend, MakeBackend());
  const std::vector<uint16_t> bits(kOutputs * kInputs * 2, 0x3c01);
  const Matrix host = {const_cast<uint16_t*>(bits.data()), kOutputs, kInputs, kInputs, dtype};
  ASSIGN_OR_RETURN(product->weight, product->backend->MakeWeight(host));
  ASSIGN_OR_RETURN(product->x, product->backend->Allocate(rows, kInputs, DType::kF32));
  ASSIGN_OR_RETURN(product->out, product->backend->Allocate(rows, kOutputs, DType::kF32));
  FillFloats(product->x.view);
  return [product] {
    Product& p = *product;
    p.backend->dense().MatMul(p.x.view, *p.weight, {}, p.out.view);
    return CheckComputed(*p.backend, p.out.view);
  };
}

struct AttentionRun {
  AttentionRun(int32_t sequences, int32_t rows, int32_t context) : step(sequences, rows, context) {}

  AttentionStep step;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<KvCache> cache;
  OwnedMatrix cos, sin, qkv, out;
};

absl::StatusOr<Work> PrepareAttention(int32_t sequences, int32_t rows, int32_t context) {
  auto run = std::make_shared<AttentionRun>(sequences, rows, context);
  ASSIGN_OR_RETURN(run->backend, MakeBackend());
  const int64_t tokens = run->step.tokens();
  ASSIGN_OR_RETURN(run->cache, run->backend->MakeKvCache({.blocks = run->step.blocks(),
                                                          .block_size = AttentionStep::kBlockSize,
                                                          .kv_heads = kKvHeads,
                                                          .head_dim = kHeadDim}));
  for (OwnedMatrix* table : {&run->cos, &run->sin}) {
    ASSIGN_OR_RETURN(*table, run->backend->Allocate(context, kHeadDim / 2, DType::kF32));
    FillFloats(table->view);
  }
  ASSIGN_OR_RETURN(run->qkv,
                   run->backend->Allocate(tokens, (kHeads + 2 * kKvHeads) * kHeadDim, DType::kF32));
  ASSIGN_OR_RETURN(run->out, run->backend->Allocate(tokens, kHeads * kHeadDim, DType::kF32));
  return [run] {
    AttentionRun& s = *run;
    FillFloats(s.qkv.view);
    const AttentionShape shape = {.heads = kHeads,
                                  .kv_heads = kKvHeads,
                                  .group = kHeads / kKvHeads,
                                  .head_dim = kHeadDim,
                                  .scale = 0.125f};
    AttentionOps& ops = s.backend->attention();
    ops.RopeAndCache(s.qkv.view, s.step.batch(), {s.cos.view, s.sin.view}, shape, *s.cache);
    ops.Attention(s.qkv.view.Cols(0, kHeads * kHeadDim), *s.cache, s.step.batch(), shape,
                  s.out.view);
    return CheckComputed(*s.backend, s.out.view);
  };
}

struct Drawing {
  std::unique_ptr<Backend> backend;
  OwnedMatrix logits;
  std::vector<SampleRow> rows;
  std::vector<SampledToken> tokens;
};

// Four sequences draw a token each.
absl::StatusOr<Work> PrepareDrawing(const SamplingParams& params) {
  constexpr int32_t kSequences = 4;
  auto drawing = std::make_shared<Drawing>();
  ASSIGN_OR_RETURN(drawing->backend, MakeBackend());
  ASSIGN_OR_RETURN(drawing->logits, drawing->backend->Allocate(kSequences, kVocab, DType::kF32));
  FillFloats(drawing->logits.view);
  float* logit = static_cast<float*>(drawing->logits.view.data);
  for (int64_t i = 0; i < int64_t{kSequences} * kVocab; ++i)  // few are likely, as in a text
    logit[i] = -1.5f * std::log(std::abs(logit[i]));
  for (int32_t slot = 0; slot < kSequences; ++slot) {
    SlotAssignment assignment;
    assignment.slot = slot;
    assignment.params = params;
    for (int32_t token = 0; token < 200; ++token) assignment.prompt.push_back(token * 31);
    for (int32_t token = 0; token < 100; ++token) assignment.generated.push_back(token * 53);
    drawing->backend->sampling().Assign({&assignment, 1});
    drawing->rows.push_back({.row = slot, .slot = slot, .position = 300 + slot});
  }
  return [drawing]() -> absl::Status {
    Drawing& d = *drawing;
    d.backend->sampling().Sample(d.logits.view, kVocab, d.rows, &d.tokens);
    RETURN_IF_ERROR(d.backend->Sync());
    if (d.tokens.size() != d.rows.size() || d.tokens[0].token == kNoToken)
      return absl::InternalError("no token was drawn");
    return absl::OkStatus();
  };
}

SamplingParams Plain(float temperature) {
  SamplingParams params;
  params.temperature = temperature;
  params.seed = 7;
  return params;
}

SamplingParams WithLogprobs() {
  SamplingParams params = Plain(0.8f);
  params.logprobs = 5;
  return params;
}

SamplingParams CutOff() {
  SamplingParams params = Plain(0.8f);
  params.top_k = 50;
  params.top_p = 0.95f;
  return params;
}

SamplingParams Penalized() {
  SamplingParams params = CutOff();
  params.top_k = 0;
  params.min_p = 0.01f;
  params.repetition_penalty = 1.1f;
  params.presence_penalty = 0.2f;
  params.frequency_penalty = 0.1f;
  return params;
}

}  // namespace

std::vector<Workload> KernelWorkloads() {
  std::vector<Workload> all;
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32})
    for (const int64_t rows : {1, 8, 64})
      all.push_back({absl::StrCat("product/", Name(dtype), "-", rows),
                     [=] { return PrepareProduct(dtype, rows); }});
  all.push_back({"attention/decode", [] { return PrepareAttention(8, 1, 600); }});
  all.push_back({"attention/prefill", [] { return PrepareAttention(1, 64, 300); }});
  for (const auto& [name, params] : {std::pair("greedy", Plain(0)),
                                     {"temperature", Plain(0.8f)},
                                     {"top-k-top-p", CutOff()},
                                     {"penalties", Penalized()},
                                     {"logprobs", WithLogprobs()}})
    all.push_back(
        {absl::StrCat("draw/", name), [params = params] { return PrepareDrawing(params); }});
  return all;
}

}  // namespace penstock
