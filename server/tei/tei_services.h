#pragma once

#include "server/rpc_service.h"

namespace penstock::tei {

// The services of tei.v1, the protocol of Text Embeddings Inference.

class InfoService final : public RpcService {
 public:
  explicit InfoService(const Front& front);
};

class EmbedService final : public RpcService {
 public:
  explicit EmbedService(const Front& front);
};

class PredictService final : public RpcService {
 public:
  explicit PredictService(const Front& front);
};

class RerankService final : public RpcService {
 public:
  explicit RerankService(const Front& front);
};

// Of models of any kind.
class TokenizeService final : public RpcService {
 public:
  explicit TokenizeService(const Front& front);
};

}  // namespace penstock::tei
