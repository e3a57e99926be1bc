#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "proto/vllm/vllm_engine.grpc.pb.h"
#include "server/vllm/vllm_service.h"
#include "tests/server/encoding_fixture.h"
#include "tests/server/serving_fixture.h"

namespace penstock::vllm {

namespace wire = ::vllm::grpc::engine;
using Stub = wire::VllmEngine::Stub;

// `options` with the protocol under test.
template <typename Options>
Options WithVllm(Options options = {}) {
  options.server.protocols.push_back(
      [](const Front& front) { return std::make_unique<VllmService>(front); });
  return options;
}

inline std::unique_ptr<Stub> NewStub(const std::string& address) {
  return wire::VllmEngine::NewStub(
      grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
}

// What one Generate brings.
struct Generated {
  grpc::Status status;
  std::map<uint32_t, std::vector<wire::GenerateStreamChunk>> chunks;  // by sample
  std::map<uint32_t, wire::GenerateComplete> completes;

  // Of a sample's tokens, each of which is a byte: those of its chunks, or when there are none, of
  // its end.
  std::string text(uint32_t index = 0) {
    std::string text;
    for (const wire::GenerateStreamChunk& chunk : chunks[index])
      text.append(chunk.token_ids().begin(), chunk.token_ids().end());
    const auto& last = completes[index].output_ids();
    return chunks[index].empty() ? std::string(last.begin(), last.end()) : text;
  }
};

inline Generated Generate(Stub& stub, const wire::GenerateRequest& request) {
  ClientCall client;
  Generated generated;
  const auto stream = stub.Generate(&client, request);
  wire::GenerateResponse response;
  while (stream->Read(&response)) {
    if (response.has_chunk())
      generated.chunks[response.chunk().index()].push_back(response.chunk());
    else
      generated.completes[response.complete().index()] = response.complete();
  }
  generated.status = stream->Finish();
  return generated;
}

// Of a prompt's bytes, which are its tokens.
inline wire::GenerateRequest Prompt(const std::string& text, uint32_t max_tokens) {
  wire::GenerateRequest request;
  for (char c : text) request.mutable_tokenized()->add_input_ids(static_cast<unsigned char>(c));
  request.mutable_sampling_params()->set_temperature(0);
  request.mutable_sampling_params()->set_max_tokens(max_tokens);
  return request;
}

}  // namespace penstock::vllm
