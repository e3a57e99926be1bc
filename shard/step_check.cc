#include "shard/step_check.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

absl::Status Bad(const char* field, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("step field ", field, ": ", why));
}

absl::Status CheckSize(const char* field, size_t size, size_t expected) {
  if (size == expected) return absl::OkStatus();
  return Bad(field, absl::StrCat(size, " entries, expected ", expected));
}

// Every value in [0, limit).
absl::Status CheckValues(const char* field, const std::vector<int32_t>& values, int64_t limit) {
  for (const int32_t value : values)
    if (value < 0 || value >= limit)
      return Bad(field, absl::StrCat(value, " is outside [0, ", limit, ")"));
  return absl::OkStatus();
}

// Offsets [0, ..., total], one sequence at least `least` long.
absl::Status CheckOffsets(const char* field, const std::vector<int32_t>& offsets, size_t total,
                          int32_t least) {
  if (offsets.front() != 0 || offsets.back() != static_cast<int64_t>(total))
    return Bad(field, absl::StrCat("does not span 0..", total));
  for (size_t i = 1; i < offsets.size(); ++i)
    if (int64_t{offsets[i]} - offsets[i - 1] < least)
      return Bad(field, absl::StrCat("sequence ", i - 1, " is too short"));
  return absl::OkStatus();
}

// Each sequence's rows are the last ones of its context, written where its blocks say. A rank's
// buffers hold the blocks of a full context per sequence, no more.
absl::Status CheckSequence(const StepBatch& batch, const ExecutorInfo& info, size_t seq) {
  const int64_t context = batch.context_lens[seq], size = info.kv_block_size;
  const int32_t* blocks = batch.blocks.data() + batch.block_begin[seq];
  const int64_t held = batch.block_begin[seq + 1] - batch.block_begin[seq];
  if ((held - 1) * size >= info.max_context)
    return Bad("block_begin", absl::StrCat(held, " blocks of sequence ", seq,
                                           " exceed the context of ", info.max_context));
  if (context < 1 || context > info.max_context || context > held * size)
    return Bad("context_lens", absl::StrCat(context, " of sequence ", seq, " with ", held,
                                            " blocks; the limit is ", info.max_context));
  const int32_t begin = batch.seq_begin[seq], end = batch.seq_begin[seq + 1];
  for (int32_t row = begin; row < end; ++row) {
    const int64_t position = context - (end - row);
    const auto at = static_cast<size_t>(row);
    if (batch.positions[at] != position || position < 0)
      return Bad("positions",
                 absl::StrCat(batch.positions[at], " in row ", row, ", expected ", position));
    if (batch.slots[at] != blocks[position / size] * size + position % size)
      return Bad("slots", absl::StrCat(batch.slots[at], " in row ", row,
                                       " is not where the block table says"));
  }
  return absl::OkStatus();
}

// A generate step's use of the KV cache.
absl::Status CheckCached(const StepBatch& batch, const ExecutorInfo& info) {
  const size_t tokens = batch.tokens.size(), seqs = batch.context_lens.size();
  RETURN_IF_ERROR(CheckSize("slots", batch.slots.size(), tokens));
  RETURN_IF_ERROR(CheckSize("token_types", batch.token_types.size(), 0));
  RETURN_IF_ERROR(CheckSize("block_begin", batch.block_begin.size(), seqs + 1));
  RETURN_IF_ERROR(CheckOffsets("block_begin", batch.block_begin, batch.blocks.size(), 1));
  RETURN_IF_ERROR(CheckValues("blocks", batch.blocks, info.kv_blocks));
  for (size_t seq = 0; seq < seqs; ++seq) RETURN_IF_ERROR(CheckSequence(batch, info, seq));
  return absl::OkStatus();
}

// An encode step has whole sequences and nothing of a KV cache or of sampling.
absl::Status CheckWhole(const StepBatch& batch, const ExecutorInfo& info) {
  RETURN_IF_ERROR(CheckSize("slots", batch.slots.size(), 0));
  RETURN_IF_ERROR(CheckSize("block_begin", batch.block_begin.size(), 0));
  RETURN_IF_ERROR(CheckSize("blocks", batch.blocks.size(), 0));
  RETURN_IF_ERROR(CheckSize("samples", batch.samples.size(), 0));
  RETURN_IF_ERROR(CheckSize("assignments", batch.assignments.size(), 0));
  if (!batch.token_types.empty()) {
    RETURN_IF_ERROR(CheckSize("token_types", batch.token_types.size(), batch.tokens.size()));
    const int64_t types = info.token_types > 0 ? info.token_types : int64_t{1} << 31;  // ignored
    RETURN_IF_ERROR(CheckValues("token_types", batch.token_types, types));
  }
  for (size_t seq = 0; seq < batch.context_lens.size(); ++seq) {
    const int32_t begin = batch.seq_begin[seq], length = batch.seq_begin[seq + 1] - begin;
    if (batch.context_lens[seq] != length || length > info.max_context)
      return Bad("context_lens", absl::StrCat(batch.context_lens[seq], " of sequence ", seq, " of ",
                                              length, " rows; the limit is ", info.max_context));
    for (int32_t i = 0; i < length; ++i)
      if (batch.positions[static_cast<size_t>(begin + i)] != i)
        return Bad("positions", absl::StrCat(batch.positions[static_cast<size_t>(begin + i)],
                                             " in row ", begin + i, ", expected ", i));
  }
  return absl::OkStatus();
}

absl::Status CheckSamples(const StepBatch& batch, const ExecutorInfo& info) {
  if (std::ssize(batch.samples) > info.max_sequences)
    return Bad("samples", absl::StrCat(batch.samples.size(), " rows exceed ", info.max_sequences));
  int64_t previous = -1;
  for (const SampleRow& sample : batch.samples) {
    if (sample.row <= previous || sample.row >= std::ssize(batch.tokens))
      return Bad("samples", absl::StrCat("row ", sample.row, " is out of order or range"));
    if (sample.slot < 0 || sample.slot >= info.max_sequences)
      return Bad("samples",
                 absl::StrCat("slot ", sample.slot, " is outside [0, ", info.max_sequences, ")"));
    previous = sample.row;
  }
  for (const SlotAssignment& assignment : batch.assignments)
    if (assignment.slot < 0 || assignment.slot >= info.max_sequences)
      return Bad("assignments", absl::StrCat("slot ", assignment.slot, " is outside [0, ",
                                             info.max_sequences, ")"));
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckStep(const StepBatch& batch, const ExecutorInfo& info) {
  const bool encodes = batch.kind == StepKind::kEncode;
  if (encodes != (info.output_width > 0))
    return Bad("kind", encodes ? "the step encodes, but the model generates"
                               : "the step generates, but the model is one-shot");
  const size_t tokens = batch.tokens.size(), seqs = batch.context_lens.size();
  if (tokens == 0 || std::ssize(batch.tokens) > info.max_step_tokens)
    return Bad("tokens", absl::StrCat(tokens, " rows; a step has 1 to ", info.max_step_tokens));
  if (seqs == 0 || std::ssize(batch.context_lens) > info.max_sequences)
    return Bad("context_lens",
               absl::StrCat(seqs, " sequences; a step has 1 to ", info.max_sequences));
  RETURN_IF_ERROR(CheckSize("positions", batch.positions.size(), tokens));
  RETURN_IF_ERROR(CheckSize("seq_begin", batch.seq_begin.size(), seqs + 1));
  RETURN_IF_ERROR(CheckOffsets("seq_begin", batch.seq_begin, tokens, 1));
  RETURN_IF_ERROR(CheckValues("tokens", batch.tokens, info.vocab));
  if (encodes) return CheckWhole(batch, info);
  RETURN_IF_ERROR(CheckCached(batch, info));
  return CheckSamples(batch, info);
}

}  // namespace penstock
