#include "shard/remote/load_order.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

constexpr int64_t kMost = std::numeric_limits<int32_t>::max();

struct Bound {
  const char* field;
  int64_t value, least, most;
};

absl::Status CheckBounds(std::initializer_list<Bound> bounds) {
  for (const Bound& bound : bounds)
    if (bound.value < bound.least || bound.value > bound.most)
      return absl::InvalidArgumentError(absl::StrCat("load: ", bound.field, " is ", bound.value,
                                                     ", not in [", bound.least, ", ", bound.most,
                                                     "]"));
  return absl::OkStatus();
}

absl::Status CheckLoad(const v1::Load& message) {
  const v1::ShardPlan& plan = message.plan();
  const v1::MemoryPlan& memory = message.memory();
  RETURN_IF_ERROR(CheckBounds({{"tensor", plan.tensor(), 1, 1024},
                               {"pipeline", plan.pipeline(), 1, 1024},
                               {"max_context", memory.max_context(), 1, kMost},
                               {"max_sequences", memory.max_sequences(), 1, 1 << 16},
                               {"max_step_tokens", memory.max_step_tokens(), 1, 1 << 20},
                               {"kv_block_size", memory.kv_block_size(), 1, 1 << 16},
                               {"kv_tokens", memory.kv_tokens(), 0, kMost},
                               {"kv_blocks", memory.kv_blocks(), 0, kMost},
                               {"vocab", memory.vocab(), 1, kMost},
                               {"output_width", memory.output_width(), 0, kMost},
                               {"token_types", memory.token_types(), 0, kMost},
                               {"threads", message.cpu().threads(), 0, 4096},
                               {"spin_us", message.cpu().spin_us(), 0, 1000000},
                               {"step_timeout_ms", message.step_timeout_ms(), 1, kMost},
                               {"ranks", message.ranks_size(), 1, 1024}}));
  for (const uint32_t rank : message.ranks())
    RETURN_IF_ERROR(
        CheckBounds({{"ranks", rank, 0, int64_t{plan.tensor()} * plan.pipeline() - 1}}));
  for (const uint32_t layers : plan.layers())
    RETURN_IF_ERROR(CheckBounds({{"layers", layers, 1, 1 << 20}}));
  return absl::OkStatus();
}

void EncodeMemory(const MemoryPlan& from, v1::MemoryPlan* to) {
  to->set_dtype(Name(from.options.dtype));
  to->set_kv_dtype(Name(from.options.kv_dtype));
  to->set_max_context(from.options.max_context);
  to->set_max_sequences(from.options.max_sequences);
  to->set_max_step_tokens(from.options.max_step_tokens);
  to->set_kv_block_size(from.options.kv_block_size);
  to->set_kv_tokens(from.options.kv_tokens);
  to->set_kv_blocks(from.info.kv_blocks);
  to->set_vocab(from.info.vocab);
  to->set_output_width(from.info.output_width);
  to->set_token_types(from.info.token_types);
  to->set_context_cost(from.info.context_cost);
}

absl::StatusOr<MemoryPlan> DecodeMemory(const v1::MemoryPlan& from, int stages) {
  MemoryPlan to;
  ASSIGN_OR_RETURN(to.options.dtype, ParseDType(from.dtype()));
  ASSIGN_OR_RETURN(to.options.kv_dtype, ParseDType(from.kv_dtype()));
  to.options.max_context = from.max_context();
  to.options.max_sequences = from.max_sequences();
  to.options.max_step_tokens = from.max_step_tokens();
  to.options.kv_block_size = from.kv_block_size();
  to.options.kv_tokens = from.kv_tokens();
  to.info = {.stages = stages,
             .max_in_flight = stages + 1,
             .kv_blocks = from.kv_blocks(),
             .kv_block_size = from.output_width() > 0 ? 0 : from.kv_block_size(),
             .max_step_tokens = from.max_step_tokens(),
             .max_sequences = from.max_sequences(),
             .max_context = from.max_context(),
             .vocab = from.vocab(),
             .output_width = from.output_width(),
             .token_types = from.token_types(),
             .context_cost = from.context_cost()};
  return to;
}

// FNV-1a.
uint64_t Hash(absl::string_view bytes, uint64_t hash) {
  for (const char byte : bytes) {
    hash ^= static_cast<unsigned char>(byte);
    hash *= 0x100000001b3;
  }
  return hash;
}

}  // namespace

v1::Load EncodeLoad(const LoadOrder& order) {
  v1::Load message;
  message.set_model_path(order.model_path);
  message.set_fingerprint(order.fingerprint);
  for (const int rank : order.ranks) message.add_ranks(static_cast<uint32_t>(rank));
  message.mutable_plan()->set_tensor(static_cast<uint32_t>(order.plan.tensor));
  message.mutable_plan()->set_pipeline(static_cast<uint32_t>(order.plan.pipeline));
  for (const int layers : order.plan.layers)
    message.mutable_plan()->add_layers(static_cast<uint32_t>(layers));
  EncodeMemory(order.memory, message.mutable_memory());
  message.mutable_cpu()->set_threads(static_cast<uint32_t>(order.cpu.threads));
  message.mutable_cpu()->set_isa(order.cpu.isa);
  message.mutable_cpu()->set_compute(order.cpu.compute);
  message.mutable_cpu()->set_spin_us(static_cast<uint32_t>(order.cpu.spin_us));
  message.set_step_timeout_ms(static_cast<uint32_t>(order.step_timeout.count()));
  return message;
}

absl::StatusOr<LoadOrder> DecodeLoad(const v1::Load& message) {
  RETURN_IF_ERROR(CheckLoad(message));
  LoadOrder order;
  order.model_path = message.model_path();
  order.fingerprint = message.fingerprint();
  order.ranks.assign(message.ranks().begin(), message.ranks().end());
  order.plan.tensor = static_cast<int>(message.plan().tensor());
  order.plan.pipeline = static_cast<int>(message.plan().pipeline());
  order.plan.layers.assign(message.plan().layers().begin(), message.plan().layers().end());
  ASSIGN_OR_RETURN(order.memory, DecodeMemory(message.memory(), order.plan.pipeline));
  order.cpu.threads = static_cast<int>(message.cpu().threads());
  order.cpu.isa = message.cpu().isa();
  order.cpu.compute = message.cpu().compute();
  order.cpu.spin_us = static_cast<int>(message.cpu().spin_us());
  order.step_timeout = std::chrono::milliseconds(message.step_timeout_ms());
  order.needed_bytes = message.needed_bytes();
  return order;
}

uint64_t Fingerprint(const Checkpoint& checkpoint) {
  // Its strings may be any bytes; dump() would throw.
  uint64_t hash =
      Hash(checkpoint.config().dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
           0xcbf29ce484222325);
  for (const TensorInfo& tensor : checkpoint.Tensors())
    hash = Hash(absl::StrCat(tensor.name, " ", absl::StrJoin(tensor.shape, "x"), " ",
                             tensor.stored_type, " ", tensor.stored_bytes, "\n"),
                hash);
  return hash;
}

}  // namespace penstock
