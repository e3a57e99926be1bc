#include "cli/protocols.h"

#include "server/kserve/kserve_service.h"
#include "server/tei/tei_services.h"
#include "server/vllm/vllm_service.h"

namespace penstock {
namespace {

template <typename Service>
std::unique_ptr<RpcService> Make(const Front& front) {
  return std::make_unique<Service>(front);
}

}  // namespace

std::vector<std::function<std::unique_ptr<RpcService>(const Front&)>> Protocols() {
  return {
      Make<kserve::KServeService>, Make<tei::InfoService>,   Make<tei::EmbedService>,
      Make<tei::PredictService>,   Make<tei::RerankService>, Make<tei::TokenizeService>,
      Make<vllm::VllmService>,
  };
}

}  // namespace penstock
