#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "shard/base/mutex.h"

namespace penstock::vllm {

// The calls that can be ended by their request's id. Thread-safe; outlives its entries.
class AbortRegistry {
 public:
  // A call that is there; its end takes it out.
  class Entry {
   public:
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    friend class AbortRegistry;
    using Calls = std::multimap<std::string, std::function<void()>, std::less<>>;
    Entry(AbortRegistry& registry, Calls::iterator place) : registry_(registry), place_(place) {}

    AbortRegistry& registry_;
    const Calls::iterator place_;
  };

  // `cancel` may be called from any thread, even when the entry has just gone. Several calls may
  // have the same id.
  std::unique_ptr<Entry> Add(const std::string& id, std::function<void()> cancel)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Cancels every call with that id; none is no error, since the call may just have ended.
  void Abort(absl::string_view id) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  Mutex mutex_;
  Entry::Calls calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace penstock::vllm
