#include "server/vllm/vllm_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/smg/common.pb.h"
#include "proto/vllm/vllm_engine.pb.h"
#include "server/field_checks.h"
#include "server/model_call.h"
#include "server/raw_message.h"
#include "server/text_call.h"
#include "server/vllm/vllm_generate.h"
#include "shard/base/status_macros.h"
#include "shard/checkpoint/json.h"

namespace penstock::vllm {
namespace {

namespace wire = ::vllm::grpc::engine;

constexpr size_t kChunkBytes = 64 << 10;  // of the tokenizer's archive

// An entry that is a number, or the first of a list of them.
int32_t TokenId(const nlohmann::json& config, absl::string_view key) {
  const nlohmann::json* value = FindMember(config, key);
  if (value != nullptr && value->is_array() && !value->empty()) value = &value->front();
  return value != nullptr && value->is_number_integer()
             ? static_cast<int32_t>(value->get<int64_t>())
             : 0;
}

std::string DefaultSampling(const nlohmann::json& generation_config) {
  nlohmann::json defaults = nlohmann::json::object();
  for (const char* key : {"temperature", "top_p", "top_k", "min_p", "repetition_penalty"})
    if (const auto* value = FindMember(generation_config, key);
        value != nullptr && value->is_number())
      defaults[key] = *value;
  return defaults.empty() ? "" : defaults.dump();
}

// Null for a file that is not there or that is no JSON.
nlohmann::json ParseFile(const Files& files, const std::string& name) {
  const auto file = files.find(name);
  if (file == files.end()) return nullptr;
  return ParseJson(file->second, name).value_or(nullptr);
}

double Ratio(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

}  // namespace

VllmService::VllmService(const Front& front) : RpcService("vllm.grpc.engine.VllmEngine", front) {
  AddRpc("Generate", [this](std::unique_ptr<RpcStream> rpc) {
    StartGenerate(this->front(), MakeGenerate(registry_), std::move(rpc));
  });
  AddRpc("Embed", [this](std::unique_ptr<RpcStream> rpc) {
    StartEncode(this->front(), MakeEmbed(), std::move(rpc));
  });
  AddAnswer("Abort", "vllm.Abort",
            [this](const grpc::ByteBuffer& bytes) -> absl::StatusOr<grpc::ByteBuffer> {
              ASSIGN_OR_RETURN(const wire::AbortRequest request,
                               ParseMessage<wire::AbortRequest>(bytes, "request_ids"));
              for (const std::string& id : request.request_ids()) registry_.Abort(id);
              return SerializeMessage(wire::AbortResponse());
            });
  AddInfoRpcs();
  for (const char* rpc : {"SubscribeKvEvents", "FlushCache", "StartProfile", "StopProfile"})
    AddRefusal(rpc, absl::StrCat("vllm.", rpc), absl::StrCat(rpc, " is not supported"));
}

void VllmService::AddInfoRpcs() {
  AddAnswer("HealthCheck", "vllm.HealthCheck",
            [this](const grpc::ByteBuffer&) { return TellHealth(); });
  AddAnswer("GetServerInfo", "vllm.GetServerInfo",
            [this](const grpc::ByteBuffer&) { return TellServer(); });
  AddAnswer("GetLoads", "vllm.GetLoads", [this](const grpc::ByteBuffer&) { return TellLoads(); });
  AddRpc("GetModelInfo", [this](std::unique_ptr<RpcStream> rpc) {
    const auto tell = [this](const grpc::ByteBuffer&, const ServedModel& model) {
      return TellModel(model);
    };
    StartText(this->front(), "vllm.GetModelInfo", tell, std::move(rpc));
  });
  AddRpc("GetTokenizer", [this](std::unique_ptr<RpcStream> rpc) {
    const auto tell = [this](const grpc::ByteBuffer&, const ServedModel& model) {
      return TellTokenizer(model);
    };
    StartText(this->front(), "vllm.GetTokenizer", tell, std::move(rpc));
  });
}

grpc::ByteBuffer VllmService::TellHealth() const {
  wire::HealthCheckResponse response;
  response.set_healthy(CanServe(front()));
  const bool serving = front().gate.state() == CallGate::State::kServing;
  response.set_message(response.healthy() ? "serving"
                       : serving          ? "no replica can serve"
                                          : "the server is starting or draining");
  return SerializeMessage(response);
}

absl::StatusOr<grpc::ByteBuffer> VllmService::TellServer() const {
  ASSIGN_OR_RETURN(const CallGate::Ticket ticket, front().gate.Enter());
  const SchedulerState state = ticket.context().state();
  wire::GetServerInfoResponse response;
  response.set_active_requests(static_cast<uint32_t>(state.running + state.waiting));
  if (state.last_progress > absl::UnixEpoch())
    response.set_last_receive_timestamp(
        absl::ToDoubleSeconds(state.last_progress - absl::UnixEpoch()));
  response.set_uptime_seconds(absl::ToDoubleSeconds(absl::Now() - started_));
  response.set_server_type("penstock");
  response.set_data_parallel_size(1);
  response.set_model_dtype(ticket.context().model.dtype);
  response.set_max_num_seqs(ticket.context().model.info.max_sequences);
  return SerializeMessage(response);
}

absl::StatusOr<grpc::ByteBuffer> VllmService::TellLoads() const {
  ASSIGN_OR_RETURN(const CallGate::Ticket ticket, front().gate.Enter());
  const ExecutorInfo& info = ticket.context().model.info;
  const SchedulerState state = ticket.context().state();
  wire::GetLoadsResponse response;
  response.set_timestamp(absl::FormatTime(absl::RFC3339_full, absl::Now(), absl::UTCTimeZone()));
  response.set_version(PENSTOCK_VERSION);
  response.set_dp_rank_count(1);
  wire::SchedulerLoad& load = *response.add_loads();
  load.set_num_running_reqs(state.running);
  load.set_num_waiting_reqs(state.waiting);
  load.set_num_total_reqs(state.running + state.waiting);
  load.set_num_used_tokens(state.kv_blocks_used * info.kv_block_size);
  load.set_max_total_num_tokens(state.kv_blocks_total * info.kv_block_size);
  load.set_token_usage(Ratio(state.kv_blocks_used, state.kv_blocks_total));
  const int32_t most = info.max_sequences * ticket.context().replicas;
  load.set_max_running_requests(most);
  load.set_utilization(Ratio(state.running, most));
  return SerializeMessage(response);
}

absl::StatusOr<std::vector<grpc::ByteBuffer>> VllmService::TellModel(const ServedModel& model) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Archive> archive, GetArchive(model.path));
  const nlohmann::json& config = archive->config;
  wire::GetModelInfoResponse response;
  response.set_model_path(model.path);
  response.set_tokenizer_path(model.path);
  response.set_served_model_name(model.name);
  response.set_is_generation(!model.encoder);
  response.set_max_context_length(static_cast<uint32_t>(model.info.max_context));
  response.set_max_req_input_len(model.info.max_context - (model.encoder ? 0 : 1));
  response.set_vocab_size(static_cast<uint32_t>(model.info.vocab));
  response.mutable_eos_token_ids()->Assign(model.eos_tokens.begin(), model.eos_tokens.end());
  response.set_bos_token_id(TokenId(config, "bos_token_id"));
  response.set_pad_token_id(TokenId(config, "pad_token_id"));
  if (const auto* type = FindMember(config, "model_type"); type != nullptr && type->is_string())
    response.set_model_type(type->get<std::string>());
  if (const auto* names = FindMember(config, "architectures");
      names != nullptr && names->is_array())
    for (const nlohmann::json& name : *names)
      if (name.is_string()) response.add_architectures(name.get<std::string>());
  response.set_default_sampling_params_json(DefaultSampling(archive->generation_config));
  return std::vector<grpc::ByteBuffer>{SerializeMessage(response)};
}

absl::StatusOr<std::vector<grpc::ByteBuffer>> VllmService::TellTokenizer(const ServedModel& model) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Archive> archive, GetArchive(model.path));
  std::vector<grpc::ByteBuffer> messages;
  for (size_t at = 0; at < archive->zip.size(); at += kChunkBytes) {
    smg::grpc::common::GetTokenizerChunk chunk;
    chunk.set_data(archive->zip.substr(at, kChunkBytes));
    if (at + kChunkBytes >= archive->zip.size()) chunk.set_sha256(archive->sha256);
    messages.push_back(SerializeMessage(chunk));
  }
  return messages;
}

absl::StatusOr<std::shared_ptr<const VllmService::Archive>> VllmService::GetArchive(
    const std::string& path) {
  const MutexLock lock(&mutex_);  // who comes while it is made waits for it
  if (archive_ != nullptr) return archive_;
  ASSIGN_OR_RETURN(const Files files, ReadTokenizerFiles(path));
  auto archive = std::make_shared<Archive>();
  archive->config = ParseFile(files, "config.json");
  archive->generation_config = ParseFile(files, "generation_config.json");
  ASSIGN_OR_RETURN(archive->zip, MakeZip(files));
  archive->sha256 = Sha256(archive->zip);
  archive_ = std::move(archive);
  return archive_;
}

}  // namespace penstock::vllm
