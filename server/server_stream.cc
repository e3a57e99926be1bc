#include "server/server_stream.h"

#include <utility>

#include "absl/memory/memory.h"

namespace penstock {

void ServerStream::Listen(Method& method) {
  auto* stream = new ServerStream(method);                 // OnRequested() takes it
  stream->context_.AsyncNotifyWhenDone(&stream->closed_);  // comes only if the request does
  method.Request(&stream->context_, &stream->request_, &stream->writer_, &stream->requested_);
}

void ServerStream::OnRequested(bool ok) {
  std::unique_ptr<ServerStream> self = absl::WrapUnique(this);
  if (!ok) return;  // the server is shutting down
  Method& method = method_;
  Listen(method);
  method.Accept(std::move(self));
}

void ServerStream::OnClosed(bool) {
  if (context_.IsCancelled()) reactor_->OnCancel();
  EndOne();
}

void ServerStream::EndOne() {
  if (--open_ends_ == 0) reactor_->OnDone();
}

}  // namespace penstock
