#include "server/vllm/abort_registry.h"

#include <utility>
#include <vector>

namespace penstock::vllm {

AbortRegistry::Entry::~Entry() {
  const MutexLock lock(&registry_.mutex_);
  registry_.calls_.erase(place_);
}

std::unique_ptr<AbortRegistry::Entry> AbortRegistry::Add(const std::string& id,
                                                         std::function<void()> cancel) {
  const MutexLock lock(&mutex_);
  return std::unique_ptr<Entry>(new Entry(*this, calls_.emplace(id, std::move(cancel))));
}

void AbortRegistry::Abort(absl::string_view id) {
  std::vector<std::function<void()>> cancels;  // called without the lock: a call may end by it
  {
    const MutexLock lock(&mutex_);
    const auto [begin, end] = calls_.equal_range(id);
    for (auto call = begin; call != end; ++call) cancels.push_back(call->second);
  }
  for (const std::function<void()>& cancel : cancels) cancel();
}

}  // namespace penstock::vllm
