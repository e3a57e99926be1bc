#include "shard/load_shards.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shard/base/status_macros.h"
#include "shard/base/thread_name.h"

namespace penstock {
namespace {

// One rank's shard, read and packed by the calling thread.
absl::StatusOr<std::unique_ptr<Shard>> LoadShard(const Checkpoint& checkpoint,
                                                 const ModelSpec& spec, const ShardPlan& plan,
                                                 int rank, const MemoryPlan& memory,
                                                 const CpuOptions& cpu, ReadProgress* progress) {
  ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, MakeCpuBackend(cpu));
  ASSIGN_OR_RETURN(std::unique_ptr<Model> model,
                   LoadModel(spec, plan, rank, memory.options.dtype, memory.options.max_context,
                             checkpoint, *backend, progress));
  return Shard::Create(spec, plan, rank, memory, std::move(backend), std::move(model));
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Shard>>> LoadShards(
    const Checkpoint& checkpoint, const ModelSpec& spec, const ShardPlan& plan,
    const std::vector<int>& ranks, const MemoryPlan& memory, const CpuOptions& cpu,
    LoadProgress* progress) {
  if (progress != nullptr && progress->ranks.size() < ranks.size())
    return absl::InvalidArgumentError("LoadProgress has fewer ranks than are to be loaded");
  std::vector<absl::StatusOr<std::unique_ptr<Shard>>> loaded;
  for (size_t i = 0; i < ranks.size(); ++i) loaded.push_back(absl::UnknownError("not loaded"));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks.size(); ++i)
    threads.emplace_back([&, i] {
      NameThread(absl::StrCat("compute ", ranks[i]));  // inherited by the threads of its backend
      loaded[i] = LoadShard(checkpoint, spec, plan, ranks[i], memory, cpu,
                            progress == nullptr ? nullptr : &progress->ranks[i]);
    });
  for (std::thread& thread : threads) thread.join();

  std::vector<std::unique_ptr<Shard>> shards;
  std::vector<std::string> signatures;
  for (auto& shard : loaded) {
    if (!shard.ok()) return shard.status();
    shards.push_back(*std::move(shard));
    signatures.push_back(shards.back()->signature());
  }
  RETURN_IF_ERROR(CheckSignatures(signatures));
  return shards;
}

absl::Status CheckSignatures(const std::vector<std::string>& signatures) {
  for (const std::string& signature : signatures)
    if (signature != signatures.front())
      return absl::FailedPreconditionError(absl::StrCat("some ranks compute as ", signature,
                                                        ", others as ", signatures.front(),
                                                        "; their results would differ"));
  return absl::OkStatus();
}

}  // namespace penstock
