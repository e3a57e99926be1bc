#include "scheduler/encode_reply.h"

namespace penstock {

void EncodeReply::Close(Result result) {
  {
    MutexLock lock(&mutex_);
    if (closed_) return;
    closed_ = true;
    result_ = std::move(result);
  }
  if (wake_) wake_();
}

std::optional<EncodeReply::Result> EncodeReply::Take() {
  MutexLock lock(&mutex_);
  return std::exchange(result_, std::nullopt);
}

}  // namespace penstock
