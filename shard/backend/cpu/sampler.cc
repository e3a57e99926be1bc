#include "shard/backend/cpu/sampler.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace penstock {
namespace {

constexpr int32_t kMaxSlots = 1 << 16;

float Penalize(float logit, int32_t count, const SamplingParams& params) {
  if (logit > 0) {
    logit /= params.repetition_penalty;
  } else {
    logit *= params.repetition_penalty;
  }
  if (count > 0) logit -= params.presence_penalty;
  return logit - params.frequency_penalty * static_cast<float>(count);
}

}  // namespace

void CpuSampler::Assign(std::span<const SlotAssignment> assignments) {
  for (const SlotAssignment& assignment : assignments) {
    if (!context_.Check(assignment.slot >= 0 && assignment.slot < kMaxSlots, "Assign", "slot ",
                        assignment.slot))
      return;
    const size_t index = static_cast<size_t>(assignment.slot);
    if (slots_.size() <= index) slots_.resize(index + 1);
    Slot& slot = slots_[index];
    slot.assigned = true;
    slot.sample_index = assignment.sample_index;
    slot.params = assignment.params;
    slot.seen.clear();
    slot.last_call = 0;
    if (!slot.params.has_penalties()) continue;
    for (int32_t token : assignment.prompt) slot.seen.push_back({token, 0});
    for (int32_t token : assignment.generated) slot.seen.push_back({token, 1});
    std::sort(slot.seen.begin(), slot.seen.end(),
              [](const SeenToken& a, const SeenToken& b) { return a.id < b.id; });
    size_t kept = 0;
    for (const SeenToken& token : slot.seen) {
      if (kept > 0 && slot.seen[kept - 1].id == token.id) {
        slot.seen[kept - 1].count += token.count;
      } else {
        slot.seen[kept++] = token;
      }
    }
    slot.seen.resize(kept);
  }
}

void CpuSampler::Count(int32_t token, int32_t occurrences, Slot& slot) {
  const auto at = std::lower_bound(slot.seen.begin(), slot.seen.end(), token,
                                   [](const SeenToken& a, int32_t id) { return a.id < id; });
  if (at != slot.seen.end() && at->id == token) {
    at->count += occurrences;
  } else {
    slot.seen.insert(at, {token, occurrences});
  }
}

const float* CpuSampler::Adjust(const float* logits, int32_t vocab, const Slot& slot,
                                bool mask_stops, DrawScratch& scratch) {
  const SamplingParams& params = slot.params;
  const bool masked = mask_stops && !params.masked_until_min.empty();
  if (!params.has_penalties() && params.logit_bias.empty() && !masked) return logits;
  scratch.logits.assign(logits, logits + vocab);
  const auto known = [=](int32_t id) { return id >= 0 && id < vocab; };
  for (const SeenToken& token : slot.seen) {
    if (!known(token.id)) continue;
    float& logit = scratch.logits[static_cast<size_t>(token.id)];
    logit = Penalize(logit, token.count, params);
  }
  for (const auto& [id, bias] : params.logit_bias)
    if (known(id)) scratch.logits[static_cast<size_t>(id)] += bias;
  if (masked) {
    for (int32_t id : params.masked_until_min)
      if (known(id))
        scratch.logits[static_cast<size_t>(id)] = -std::numeric_limits<float>::infinity();
  }
  return scratch.logits.data();
}

SampledToken CpuSampler::SampleOne(const float* logits, int32_t vocab, const SampleRow& row,
                                   DrawScratch& scratch) {
  Slot& slot = slots_[static_cast<size_t>(row.slot)];
  const SamplingParams& params = slot.params;
  const auto choose = [&](const float* from) {
    if (!(params.temperature > 0)) return MostLikely(from, vocab, context_.kernels());
    const double u = UniformNumber(params.seed, slot.sample_index, row.position);
    return DrawToken(from, vocab, params, u, context_.kernels(), scratch);
  };
  SampledToken result;
  const float* adjusted = Adjust(logits, vocab, slot, row.mask_stops, scratch);
  result.token = choose(adjusted);
  if (result.token == kNoToken && adjusted != logits) result.token = choose(logits);
  if (result.token == kNoToken) return result;
  if (params.logprobs >= 0)
    AddLogprobs(logits, vocab, params.logprobs, context_.kernels(), scratch, result);
  if (params.has_penalties()) Count(result.token, 1, slot);
  return result;
}

bool CpuSampler::CheckRows(const Matrix& logits, int32_t vocab, std::span<const SampleRow> rows) {
  if (!context_.CheckMatrix(logits, static_cast<int64_t>(rows.size()), logits.cols, DType::kF32,
                            "Sample", "logits") ||
      !context_.Check(vocab > 0 && vocab <= logits.cols, "Sample", "vocabulary of ", vocab,
                      " with ", logits.cols, " logits"))
    return false;
  for (const SampleRow& row : rows) {
    const bool bound = row.slot >= 0 && static_cast<size_t>(row.slot) < slots_.size() &&
                       slots_[static_cast<size_t>(row.slot)].assigned;
    if (!context_.Check(bound, "Sample", "row ", row.row, " names slot ", row.slot,
                        ", which no sequence is bound to"))
      return false;
  }
  return true;
}

void CpuSampler::Sample(Matrix logits, int32_t vocab, std::span<const SampleRow> rows,
                        std::vector<SampledToken>* out) {
  out->assign(rows.size(), SampledToken());
  if (rows.empty() || !CheckRows(logits, vocab, rows)) return;
  ++calls_;
  bool repeated = false;  // a slot's rows must be taken in order
  for (const SampleRow& row : rows)
    repeated |= std::exchange(slots_[static_cast<size_t>(row.slot)].last_call, calls_) == calls_;
  scratch_.resize(static_cast<size_t>(context_.pool->threads()));
  const auto sample = [&](int64_t i, int worker) {
    const size_t index = static_cast<size_t>(i);
    (*out)[index] = SampleOne(static_cast<const float*>(logits.At(i, 0)), vocab, rows[index],
                              scratch_[static_cast<size_t>(worker)]);
  };
  if (repeated) {
    for (int64_t i = 0; i < logits.rows; ++i) sample(i, 0);
  } else {
    context_.pool->Run(logits.rows, sample);
  }
}

}  // namespace penstock
