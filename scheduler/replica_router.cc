#include "scheduler/replica_router.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/time/clock.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

// Whether another replica may take what this one has refused.
bool IsOfReplica(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnavailable(status);
}

absl::Status SubmitTo(const ReplicaRouter::Replica& replica, GenerateRequest request,
                      std::shared_ptr<TokenStream> stream) {
  if (replica.estimate != nullptr)
    RETURN_IF_ERROR(
        replica.estimate->CheckInTime(request, replica.generator->state(), absl::Now()));
  return replica.generator->Submit(std::move(request), std::move(stream));
}

}  // namespace

ReplicaRouter::ReplicaRouter(const RouterOptions& options, std::vector<Replica> replicas)
    : options_(options),
      replicas_(std::move(replicas)),
      affinity_(options.remembered_prefixes),
      submitted_(replicas_.size(), 0) {}

absl::Status ReplicaRouter::Submit(GenerateRequest request, std::shared_ptr<TokenStream> stream) {
  if (replicas_.size() == 1)
    return SubmitTo(replicas_.front(), std::move(request), std::move(stream));
  // Kept over the submission: the next request is to see this one's load.
  MutexLock lock(&mutex_);
  std::vector<uint64_t> keys = PrefixKeys(request, options_.block_tokens);
  keys.insert(keys.begin(), CallKey(request));
  absl::Status refused;
  for (size_t replica : Rank(request, keys)) {
    const absl::Status status = SubmitTo(replicas_[replica], request, stream);
    if (status.ok()) {
      ++submitted_[replica];
      affinity_.Remember(keys, replica);
      return status;
    }
    if (!IsOfReplica(status)) return status;
    if (refused.ok() || absl::IsResourceExhausted(status)) refused = status;
  }
  return refused;
}

std::vector<size_t> ReplicaRouter::Rank(const GenerateRequest& request,
                                        const std::vector<uint64_t>& keys) const {
  std::vector<SchedulerState> states;
  for (const Replica& replica : replicas_) states.push_back(replica.generator->state());
  std::vector<size_t> ranking(replicas_.size());
  std::iota(ranking.begin(), ranking.end(), size_t{0});
  std::sort(ranking.begin(), ranking.end(), [&](size_t a, size_t b) {
    mutex_.AssertHeld();
    return std::tuple(!states[a].healthy, states[a].pending_tokens, submitted_[a], a) <
           std::tuple(!states[b].healthy, states[b].pending_tokens, submitted_[b], b);
  });

  const std::optional<size_t> known = affinity_.Find(keys);
  if (!known || !states[*known].healthy) return ranking;
  const int64_t more = states[*known].pending_tokens - states[ranking.front()].pending_tokens;
  // A later sample finds its call's own key, so it follows the first one whatever the load is.
  if (request.sample_index == 0 && more > options_.max_imbalance) return ranking;
  const auto place = std::find(ranking.begin(), ranking.end(), *known);
  std::rotate(ranking.begin(), place, place + 1);
  return ranking;
}

SchedulerState ReplicaRouter::state() const {
  SchedulerState sum;
  sum.healthy = false;
  const absl::Time now = absl::Now();
  for (const Replica& replica : replicas_) {
    const SchedulerState state = replica.generator->state();
    sum.running += state.running;
    sum.waiting += state.waiting;
    sum.kv_blocks_used += state.kv_blocks_used;
    sum.kv_blocks_cached += state.kv_blocks_cached;
    sum.kv_blocks_total += state.kv_blocks_total;
    sum.in_flight += state.in_flight;
    sum.pending_tokens += state.pending_tokens;
    if (!state.healthy) continue;
    sum.healthy = true;
    sum.last_progress = std::max(sum.last_progress, state.has_work() ? state.last_progress : now);
  }
  return sum;
}

}  // namespace penstock
