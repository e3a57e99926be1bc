#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/tei/v1/tei.grpc.pb.h"
#include "server/tei/tei_services.h"
#include "tests/server/encoding_fixture.h"
#include "tests/server/serving_fixture.h"

namespace penstock::tei {

namespace wire = ::tei::v1;

// `options` with the protocol under test.
template <typename Options>
Options WithTei(Options options = {}) {
  auto& protocols = options.server.protocols;
  protocols.push_back([](const Front& front) { return std::make_unique<InfoService>(front); });
  protocols.push_back([](const Front& front) { return std::make_unique<EmbedService>(front); });
  protocols.push_back([](const Front& front) { return std::make_unique<PredictService>(front); });
  protocols.push_back([](const Front& front) { return std::make_unique<RerankService>(front); });
  protocols.push_back([](const Front& front) { return std::make_unique<TokenizeService>(front); });
  return options;
}

inline EncodeServing::Options Classifying(std::vector<std::string> labels) {
  EncodeServing::Options options;
  options.encoder = Classifier(std::move(labels));
  return WithTei(std::move(options));
}

inline std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  return grpc::CreateChannel(address, grpc::InsecureChannelCredentials());
}

// What the server must say of a text, or of a pair, with `width` numbers.
inline std::vector<float> Expected(const Tokenizer& tokenizer, const std::string& text,
                                   std::optional<absl::string_view> pair, int32_t width,
                                   size_t max_tokens = 0) {
  const Encoding encoding = tokenizer.EncodeInput(text, pair, max_tokens);
  return FakeEncode(encoding.ids, encoding.types, width);
}

}  // namespace penstock::tei
