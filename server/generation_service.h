#pragma once

#include "server/rpc_service.h"

namespace penstock {

// penstock.v1.Generation.
class GenerationService final : public RpcService {
 public:
  explicit GenerationService(const Front& front);
};

}  // namespace penstock
