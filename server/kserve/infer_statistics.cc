#include "server/kserve/infer_statistics.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"

namespace penstock::kserve {

void InferStatistics::Sum::Add(absl::Duration duration) {
  ++count;
  time += duration;
}

void InferStatistics::Sum::Fill(inference::StatisticDuration* to) const {
  to->set_count(count);
  to->set_ns(static_cast<uint64_t>(absl::ToInt64Nanoseconds(time)));
}

void InferStatistics::OnSuccess(int64_t batch, absl::Duration queue, absl::Duration total) {
  queue = std::clamp(queue, absl::ZeroDuration(), total);
  MutexLock lock(&mutex_);
  elements_ += static_cast<uint64_t>(batch);
  success_.Add(total);
  queue_.Add(queue);
  infer_.Add(total - queue);
  last_ = absl::Now();
}

void InferStatistics::OnFailure(absl::Duration total) {
  MutexLock lock(&mutex_);
  fail_.Add(total);
}

void InferStatistics::Fill(inference::ModelStatistics* to) const {
  MutexLock lock(&mutex_);
  if (last_ != absl::InfinitePast())
    to->set_last_inference(static_cast<uint64_t>(absl::ToUnixMillis(last_)));
  to->set_inference_count(elements_);
  to->set_execution_count(success_.count);
  inference::InferStatistics* statistics = to->mutable_inference_stats();
  success_.Fill(statistics->mutable_success());
  fail_.Fill(statistics->mutable_fail());
  queue_.Fill(statistics->mutable_queue());
  infer_.Fill(statistics->mutable_compute_infer());
  // Texts are read and written while others compute; nothing of it is measured by itself.
  Sum{success_.count, absl::ZeroDuration()}.Fill(statistics->mutable_compute_input());
  Sum{success_.count, absl::ZeroDuration()}.Fill(statistics->mutable_compute_output());
}

CountedInference::CountedInference(InferStatistics& statistics)
    : statistics_(statistics), arrival_(absl::Now()) {}

CountedInference::~CountedInference() {
  if (!counted_) statistics_.OnFailure(absl::Now() - arrival_);
}

void CountedInference::Succeed(int64_t batch, absl::Duration queue) {
  counted_ = true;
  statistics_.OnSuccess(batch, queue, absl::Now() - arrival_);
}

}  // namespace penstock::kserve
