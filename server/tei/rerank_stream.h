#pragma once

#include <memory>

#include "server/front.h"
#include "server/rpc_stream.h"

namespace penstock::tei {

// RerankStream: gathers what the client sends until its last message, then answers as Rerank does.
// On the front's loop.
void StartRerankStream(const Front& front, std::unique_ptr<RpcStream> rpc);

}  // namespace penstock::tei
