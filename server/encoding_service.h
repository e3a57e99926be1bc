#pragma once

#include "server/rpc_service.h"

namespace penstock {

// penstock.v1.Encoding.
class EncodingService final : public RpcService {
 public:
  explicit EncodingService(const Front& front);
};

}  // namespace penstock
