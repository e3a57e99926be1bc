#include "bench/grpc/closed_loop.h"

#include <algorithm>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "bench/engine/drive.h"
#include "shard/base/mutex.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

// What the streams' readers tell, on the scheduler's thread, to who submits.
class Tally {
 public:
  void OnRead(const TokenStream::Chunk& chunk, absl::Time submitted, bool first) {
    MutexLock lock(&mutex_);
    if (first) ttft_.push_back(absl::ToDoubleSeconds(absl::Now() - submitted));
    tokens_ += std::ssize(chunk.tokens);
    if (!chunk.closed) return;
    --running_;
    status_.Update(chunk.status);
  }

  // Until fewer than `count` run or one has failed; then counts one more.
  absl::Status AwaitFewer(int32_t count) {
    MutexLock lock(&mutex_);
    mutex_.Await([&] {
      mutex_.AssertHeld();
      return running_ < count || !status_.ok();
    });
    ++running_;
    return status_;
  }

  ClosedLoopResult Result(double seconds) {
    MutexLock lock(&mutex_);
    std::sort(ttft_.begin(), ttft_.end());
    return {seconds, static_cast<double>(tokens_) / seconds, ttft_};
  }

 private:
  Mutex mutex_;
  int32_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<double> ttft_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

// One request's stream and its reader.
class Reader {
 public:
  explicit Reader(std::shared_ptr<Tally> tally)
      : tally_(std::move(tally)), stream_(std::make_shared<TokenStream>([this] { Read(); })) {}

  const std::shared_ptr<TokenStream>& stream() const { return stream_; }

 private:
  void Read() {
    const TokenStream::Chunk chunk = stream_->Read();
    const bool first = !begun_ && !chunk.tokens.empty();
    begun_ = begun_ || first;
    tally_->OnRead(chunk, submitted_, first);
  }

  const absl::Time submitted_ = absl::Now();
  bool begun_ = false;
  std::shared_ptr<Tally> tally_;
  std::shared_ptr<TokenStream> stream_;
};

}  // namespace

absl::StatusOr<ClosedLoopResult> RunClosedLoop(Generator& generator, const ClosedLoop& load) {
  std::vector<GenerateRequest> requests;
  for (int32_t i = 0; i < load.requests; ++i)
    requests.push_back(MakeRequest(load.seed * 100000 + static_cast<uint64_t>(i), load.vocab,
                                   load.prompt_tokens, load.output_tokens));
  const auto tally = std::make_shared<Tally>();
  std::vector<std::unique_ptr<Reader>> readers;  // until all streams have ended
  const absl::Time begin = absl::Now();
  for (GenerateRequest& request : requests) {
    RETURN_IF_ERROR(tally->AwaitFewer(load.concurrency));
    readers.push_back(std::make_unique<Reader>(tally));
    RETURN_IF_ERROR(generator.Submit(std::move(request), readers.back()->stream()));
  }
  RETURN_IF_ERROR(tally->AwaitFewer(1));
  return tally->Result(absl::ToDoubleSeconds(absl::Now() - begin));
}

}  // namespace penstock
