#pragma once

#include <grpcpp/grpcpp.h>

#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/kserve/inference.grpc.pb.h"
#include "server/kserve/kserve_service.h"
#include "tests/server/encoding_fixture.h"
#include "tests/server/serving_fixture.h"

namespace penstock::kserve {

using Stub = inference::GRPCInferenceService::Stub;

// `options` with the protocol under test.
template <typename Options>
Options WithKServe(Options options = {}) {
  options.server.protocols.push_back(
      [](const Front& front) { return std::make_unique<KServeService>(front); });
  return options;
}

inline std::unique_ptr<Stub> NewStub(const std::string& address) {
  return inference::GRPCInferenceService::NewStub(
      grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
}

// Adds inputs to a request with raw contents, as tritonclient does.
class Inputs {
 public:
  explicit Inputs(inference::ModelInferRequest& request) : request_(request) {}

  Inputs& Strings(const std::string& name, const std::vector<std::string>& values) {
    std::string raw;
    for (const std::string& value : values) {
      const auto length = static_cast<uint32_t>(value.size());
      raw.append(reinterpret_cast<const char*>(&length), sizeof(length));
      raw += value;
    }
    return Raw(name, "BYTES", {static_cast<int64_t>(values.size())}, raw);
  }
  template <typename T>
  Inputs& Numbers(const std::string& name, const std::string& datatype, std::vector<int64_t> shape,
                  const std::vector<T>& values) {
    return Raw(name, datatype, std::move(shape),
               {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
  }
  Inputs& Bool(const std::string& name, bool value) {
    return Raw(name, "BOOL", {1}, std::string(1, value ? 1 : 0));
  }
  Inputs& Raw(const std::string& name, const std::string& datatype,
              const std::vector<int64_t>& shape, const std::string& raw) {
    auto* input = request_.add_inputs();
    input->set_name(name);
    input->set_datatype(datatype);
    input->mutable_shape()->Assign(shape.begin(), shape.end());
    request_.add_raw_input_contents(raw);
    return *this;
  }

 private:
  inference::ModelInferRequest& request_;
};

// The number of an output tensor; -1 when it is not there.
inline int Find(const inference::ModelInferResponse& response, const std::string& name) {
  for (int i = 0; i < response.outputs_size(); ++i)
    if (response.outputs(i).name() == name) return i;
  return -1;
}

template <typename T>
std::vector<T> NumbersOf(const inference::ModelInferResponse& response, const std::string& name) {
  const int index = Find(response, name);
  if (index < 0) return {};
  const std::string& raw = response.raw_output_contents(index);
  std::vector<T> values(raw.size() / sizeof(T));
  std::memcpy(values.data(), raw.data(), values.size() * sizeof(T));
  return values;
}

inline std::vector<std::string> StringsOf(const inference::ModelInferResponse& response,
                                          const std::string& name) {
  const int index = Find(response, name);
  if (index < 0) return {};
  absl::string_view raw = response.raw_output_contents(index);
  std::vector<std::string> strings;
  while (raw.size() >= 4) {
    uint32_t length = 0;
    std::memcpy(&length, raw.data(), 4);
    strings.emplace_back(raw.substr(4, length));
    raw.remove_prefix(std::min<size_t>(raw.size(), 4 + length));
  }
  return strings;
}

inline std::vector<int64_t> ShapeOf(const inference::ModelInferResponse& response,
                                    const std::string& name) {
  const int index = Find(response, name);
  if (index < 0) return {};
  const auto& shape = response.outputs(index).shape();
  return {shape.begin(), shape.end()};
}

// What one ModelInfer brings.
struct Inferred {
  grpc::Status status;
  inference::ModelInferResponse response;
  std::string text() const {
    const auto texts = StringsOf(response, "text_output");
    return texts.empty() ? "" : texts[0];
  }
};

inline Inferred Infer(Stub& stub, const inference::ModelInferRequest& request) {
  ClientCall client;
  Inferred inferred;
  inferred.status = stub.ModelInfer(&client, request, &inferred.response);
  return inferred;
}

}  // namespace penstock::kserve
