#include "server/call_gate.h"

#include <utility>

namespace penstock {

CallGate::Ticket::Ticket(Ticket&& other) noexcept
    : gate_(std::exchange(other.gate_, nullptr)), context_(other.context_) {}

CallGate::Ticket& CallGate::Ticket::operator=(Ticket&& other) noexcept {
  if (this == &other) return *this;
  Leave();
  gate_ = std::exchange(other.gate_, nullptr);
  context_ = other.context_;
  return *this;
}

void CallGate::Ticket::Leave() {
  if (CallGate* gate = std::exchange(gate_, nullptr)) gate->Leave();
}

absl::StatusOr<CallGate::Ticket> CallGate::Enter() {
  MutexLock lock(&mutex_);
  if (draining_) return absl::UnavailableError("the server is draining");
  if (context_ == nullptr) return absl::UnavailableError("the server is starting");
  ++inside_;
  return Ticket(this, context_);
}

void CallGate::Leave() {
  MutexLock lock(&mutex_);
  --inside_;
}

void CallGate::Open(const ServingContext* context) {
  MutexLock lock(&mutex_);
  context_ = context;
}

void CallGate::Close() {
  MutexLock lock(&mutex_);
  draining_ = true;
}

void CallGate::RequestStop() {
  MutexLock lock(&mutex_);
  ++stops_;
}

void CallGate::AwaitStop() {
  MutexLock lock(&mutex_);
  mutex_.Await([this] {
    mutex_.AssertHeld();
    return stops_ > 0;
  });
}

bool CallGate::stop_requested() {
  MutexLock lock(&mutex_);
  return stops_ > 0;
}

bool CallGate::AwaitEmpty(absl::Duration grace) {
  MutexLock lock(&mutex_);
  mutex_.AwaitFor(
      [this] {
        mutex_.AssertHeld();
        return inside_ == 0 || stops_ > 1;
      },
      absl::ToChronoNanoseconds(grace));
  return inside_ == 0;
}

CallGate::State CallGate::state() {
  MutexLock lock(&mutex_);
  if (draining_) return State::kDraining;
  return context_ == nullptr ? State::kStarting : State::kServing;
}

int CallGate::inside() {
  MutexLock lock(&mutex_);
  return inside_;
}

}  // namespace penstock
