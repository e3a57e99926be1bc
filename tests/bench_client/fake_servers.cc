#include "tests/bench_client/fake_servers.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace penstock {

FakeServer::FakeServer(grpc::Service& service) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  server_ = builder.BuildAndStart();
  address_ = absl::StrCat("127.0.0.1:", port);
}

void FakeServer::Die() {
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

grpc::Status FakeGeneration::Generate(grpc::ServerContext* context,
                                      const v1::GenerateRequest* request,
                                      grpc::ServerWriter<v1::GenerateResponse>* writer) {
  {
    MutexLock lock(&mutex_);
    requests_.push_back(*request);
    most_running_ = std::max(most_running_.load(), running_.load() + 1);
    ++running_;
  }
  grpc::Status status = failure;
  const uint32_t tokens = request->stopping().max_tokens();
  for (uint32_t i = 0; status.ok() && i < tokens; ++i) {
    std::this_thread::sleep_for(absl::ToChronoMicroseconds(gap));
    v1::GenerateResponse message;
    message.add_token_ids(1);
    if (i + 1 == tokens && !without_finish_reason) {
      message.set_finish_reason(v1::FINISH_REASON_LENGTH);
      message.mutable_usage()->set_prompt_tokens(
          static_cast<uint32_t>(request->tokens().ids_size()));
      message.mutable_usage()->set_cached_prompt_tokens(1);
      message.mutable_timings()->set_queue_seconds(0.25);
    }
    if (!writer->Write(message) || context->IsCancelled())
      status = grpc::Status(grpc::StatusCode::CANCELLED, "the client went away");
  }
  --running_;
  return status;
}

std::vector<v1::GenerateRequest> FakeGeneration::requests() {
  MutexLock lock(&mutex_);
  return requests_;
}

grpc::Status FakeEncoding::Embed(grpc::ServerContext*, const v1::EmbedRequest* request,
                                 v1::EmbedResponse* response) {
  for (const v1::Input& input : request->inputs())
    response->add_embeddings()->set_tokens(static_cast<uint32_t>(input.tokens().ids_size()) + 2);
  response->mutable_timings()->set_queue_seconds(0.5);
  return grpc::Status::OK;
}

namespace {

int AskedTokens(const inference::ModelInferRequest& request) {
  for (const auto& input : request.inputs())
    if (input.name() == "sampling_parameters")
      return nlohmann::json::parse(input.contents().bytes_contents(0)).at("max_tokens");
  return 0;
}

}  // namespace

void FakeKserve::Remember(const inference::ModelInferRequest& request) {
  MutexLock lock(&mutex_);
  requests_.push_back(request);
}

std::vector<inference::ModelInferRequest> FakeKserve::requests() {
  MutexLock lock(&mutex_);
  return requests_;
}

void FakeKserve::Fill(const std::string& text, uint32_t tokens,
                      inference::ModelInferResponse* response) const {
  const auto add = [response](const char* name, const char* datatype, uint32_t number,
                              const std::string& rest) {
    auto* output = response->add_outputs();
    output->set_name(name);
    output->set_datatype(datatype);
    output->add_shape(1);
    std::string raw(sizeof(number), '\0');
    std::memcpy(raw.data(), &number, sizeof(number));
    response->add_raw_output_contents(raw + rest);
  };
  add("text_output", "BYTES", static_cast<uint32_t>(text.size()), text);
  if (tells_counts) add("num_output_tokens", "UINT32", tokens, "");
}

grpc::Status FakeKserve::ModelInfer(grpc::ServerContext*,
                                    const inference::ModelInferRequest* request,
                                    inference::ModelInferResponse* response) {
  Remember(*request);
  Fill("all at once", static_cast<uint32_t>(AskedTokens(*request)), response);
  return grpc::Status::OK;
}

grpc::Status FakeKserve::ModelStreamInfer(grpc::ServerContext*, Stream* stream) {
  inference::ModelInferRequest request;
  while (stream->Read(&request)) {
    Remember(request);
    inference::ModelStreamInferResponse message;
    if (!error_in_stream.empty()) {
      message.set_error_message(error_in_stream);
      stream->Write(message);
      continue;
    }
    const int tokens = AskedTokens(request);
    for (int i = 0; i <= tokens; ++i) {  // the last one is empty and brings no token
      message.Clear();
      Fill(i < tokens ? " word" : "", i < tokens ? 1 : 0, message.mutable_infer_response());
      stream->Write(message);
    }
  }
  return grpc::Status::OK;
}

}  // namespace penstock
