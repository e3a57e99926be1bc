#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "server/rpc_service.h"

namespace penstock {

// The services of the protocols that are spoken beside penstock.v1, for ServerOptions.
std::vector<std::function<std::unique_ptr<RpcService>(const Front&)>> Protocols();

}  // namespace penstock
