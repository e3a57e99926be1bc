#include "server/generation_service.h"

#include <utility>

#include "server/model_call.h"

namespace penstock {

GenerationService::GenerationService(const Front& front)
    : RpcService("penstock.v1.Generation", front) {
  AddRpc("Generate", [this](std::unique_ptr<RpcStream> stream) {
    StartGenerate(this->front(), MakeNativeGenerate(), std::move(stream));
  });
}

}  // namespace penstock
