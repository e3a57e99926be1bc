#include "server/generate_method.h"

#include <utility>

#include "server/raw_message.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

constexpr absl::string_view kStrings = "model, text, stopping.stop, scheduling.cache_salt";

class NativeGenerate final : public GenerateMethod {
 public:
  absl::string_view name() const override { return "Generate"; }

  absl::StatusOr<std::vector<v1::GenerateRequest>> Parse(const grpc::ByteBuffer& bytes,
                                                         const ServedModel& /*model*/) override {
    std::vector<v1::GenerateRequest> requests(1);
    ASSIGN_OR_RETURN(requests[0], ParseMessage<v1::GenerateRequest>(bytes, kStrings));
    return requests;
  }

  void Respond(size_t /*prompt*/, v1::GenerateResponse news,
               std::vector<grpc::ByteBuffer>* out) override {
    out->push_back(SerializeMessage(news));  // max_tokens keeps it below 2 GiB
  }
};

}  // namespace

std::unique_ptr<GenerateMethod> MakeNativeGenerate() { return std::make_unique<NativeGenerate>(); }

}  // namespace penstock
