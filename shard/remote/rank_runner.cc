#include "shard/remote/rank_runner.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "shard/base/detached_status.h"
#include "shard/base/status_macros.h"
#include "shard/base/thread_name.h"

namespace penstock {

RankRunner::RankRunner(int rank, std::unique_ptr<Shard> shard, Done done)
    : rank_(rank), shard_(std::move(shard)), done_(std::move(done)), thread_([this] { Loop(); }) {}

RankRunner::~RankRunner() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    Fail(absl::CancelledError("the worker's session has ended"));
  }
  thread_.join();
}

void RankRunner::Launch(std::shared_ptr<const StepBatch> batch) {
  MutexLock lock(&mutex_);
  if (connected_ && !failed_) steps_.push_back(std::move(batch));
}

void RankRunner::Abort(const absl::Status& why) {
  MutexLock lock(&mutex_);
  Fail(why);
}

void RankRunner::Fail(const absl::Status& why) {
  if (!connected_ || failed_) return;
  failed_ = true;
  steps_.clear();
  shard_->Abort(Detached(why));
}

absl::Status RankRunner::Connect(std::unique_ptr<Communicator> tensor_group,
                                 std::unique_ptr<Communicator> pipeline_group, uint64_t epoch,
                                 std::chrono::milliseconds timeout) {
  MutexLock lock(&mutex_);
  Fail(absl::AbortedError("another epoch begins"));
  const bool idle = mutex_.AwaitFor(
      [this] {
        mutex_.AssertHeld();
        return !running_;
      },
      timeout);
  if (!idle)
    return absl::DeadlineExceededError(
        absl::StrCat("rank ", rank_, " is still busy (", shard_->operation(), ")"));
  RETURN_IF_ERROR(shard_->Ready());
  shard_->Connect(std::move(tensor_group), std::move(pipeline_group), epoch);
  connected_ = true;
  failed_ = false;
  return absl::OkStatus();
}

void RankRunner::Loop() {
  NameThread(absl::StrCat("rank ", rank_));
  while (const std::shared_ptr<const StepBatch> batch = Take()) {
    const absl::StatusOr<StepResult> share = shard_->Run(*batch);
    done_(rank_, batch->epoch, share, shard_->stats());
    Finish(share.status());
  }
}

std::shared_ptr<const StepBatch> RankRunner::Take() {
  MutexLock lock(&mutex_);
  mutex_.Await([this] {
    mutex_.AssertHeld();
    return stopping_ || !steps_.empty();
  });
  if (stopping_) return nullptr;
  auto batch = std::move(steps_.front());
  steps_.pop_front();
  running_ = true;
  return batch;
}

void RankRunner::Finish(const absl::Status& outcome) {
  MutexLock lock(&mutex_);
  running_ = false;
  if (!outcome.ok()) Fail(outcome);
}

}  // namespace penstock
