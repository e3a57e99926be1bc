#include "server/encoding_service.h"

#include <utility>

#include "server/model_call.h"

namespace penstock {

EncodingService::EncodingService(const Front& front) : RpcService("penstock.v1.Encoding", front) {
  const auto add = [this](absl::string_view rpc, std::unique_ptr<EncodeMethod> (*make)()) {
    AddRpc(rpc, [this, make](std::unique_ptr<RpcStream> stream) {
      StartEncode(this->front(), make(), std::move(stream));
    });
  };
  add("Embed", MakeEmbedMethod);
  add("Classify", MakeClassifyMethod);
  add("Score", MakeScoreMethod);
}

}  // namespace penstock
