#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/rpc_service.h"
#include "server/vllm/abort_registry.h"
#include "server/vllm/tokenizer_archive.h"
#include "shard/base/mutex.h"

namespace penstock::vllm {

// vllm.grpc.engine.VllmEngine, by which the SMG gateway puts an HTTP API in front of an engine.
class VllmService final : public RpcService {
 public:
  explicit VllmService(const Front& front);

 private:
  void AddInfoRpcs();
  grpc::ByteBuffer TellHealth() const;
  absl::StatusOr<grpc::ByteBuffer> TellServer() const;
  absl::StatusOr<grpc::ByteBuffer> TellLoads() const;
  absl::StatusOr<std::vector<grpc::ByteBuffer>> TellModel(const ServedModel& model);
  absl::StatusOr<std::vector<grpc::ByteBuffer>> TellTokenizer(const ServedModel& model);

  // The model's files, read once; what failed is tried again.
  struct Archive {
    nlohmann::json config, generation_config;  // null where there is none
    std::string zip, sha256;
  };
  absl::StatusOr<std::shared_ptr<const Archive>> GetArchive(const std::string& path)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const absl::Time started_ = absl::Now();
  AbortRegistry registry_;
  Mutex mutex_;
  std::shared_ptr<const Archive> archive_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace penstock::vllm
