#include "shard/remote/worker_link.h"

#include <utility>

namespace penstock {

std::shared_ptr<grpc::Channel> MakeWorkerChannel(
    const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 500);
  arguments.SetMaxReceiveMessageSize(-1);  // a step's logits may be large
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

WorkerLink::WorkerLink(const std::shared_ptr<grpc::Channel>& channel, const Sign& sign,
                       Receive receive, Lost lost)
    : receive_(std::move(receive)),
      lost_(std::move(lost)),
      stub_(v1::ShardWorker::NewStub(channel)) {
  sign(&context_);
  stub_->async()->Serve(&context_, this);
  StartRead(&incoming_);
  StartCall();
}

WorkerLink::~WorkerLink() {
  context_.TryCancel();
  done_->get_future().wait();
}

void WorkerLink::Send(v1::LeaderMessage message) {
  MutexLock lock(&mutex_);
  if (broken_) return;
  outgoing_.push_back(std::move(message));
  if (outgoing_.size() == 1) StartWrite(&outgoing_.front());
}

void WorkerLink::OnWriteDone(bool ok) {
  MutexLock lock(&mutex_);
  broken_ = broken_ || !ok;
  if (broken_) return outgoing_.clear();
  outgoing_.pop_front();
  if (!outgoing_.empty()) StartWrite(&outgoing_.front());
}

void WorkerLink::OnReadDone(bool ok) {
  if (ok) {
    receive_(incoming_);
    StartRead(&incoming_);
    return;
  }
  MutexLock lock(&mutex_);
  broken_ = true;
}

void WorkerLink::OnDone(const grpc::Status& status) {
  const auto done = done_;
  lost_(status);
  done->set_value();
}

}  // namespace penstock
