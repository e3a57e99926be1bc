#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cli/bench/target.h"
#include "server/grpc_status.h"

namespace penstock {

// What every call does: keep the record of its request, and itself alive until its end.
class RecordedCall : public Call, public std::enable_shared_from_this<RecordedCall> {
 public:
  RecordedCall(const PlannedRequest& request, std::optional<absl::Duration> intended,
               const Target::Options& options, const CallContext& context)
      : context_(context), intended_(intended), timeout_(options.timeout) {
    record_.index = request.index;
    record_.inputs = static_cast<int32_t>(request.inputs.size());
    record_.prompt_tokens = request.prompt_tokens;
  }

  void Start() final {
    self_ = shared_from_this();
    if (timeout_)
      client_.set_deadline(std::chrono::system_clock::now() +
                           absl::ToChronoMicroseconds(*timeout_));
    record_.sent = context_.clock.Now();
    record_.intended = intended_.value_or(record_.sent);
    Begin();
  }
  void Cancel() final { client_.TryCancel(); }

 protected:
  // Hands the call to gRPC.
  virtual void Begin() = 0;

  void AddTokens(int64_t tokens) {
    if (tokens <= 0) return;
    record_.arrivals.push_back({context_.clock.Now(), static_cast<int32_t>(tokens)});
    context_.ends->AddTokens(tokens);
  }
  // The last thing a call does: it may be gone when this returns.
  void End(const absl::Status& status) {
    record_.end = context_.clock.Now();
    record_.code = status.code();
    record_.message = std::string(status.message());
    const std::shared_ptr<CallEnds> ends = context_.ends;
    ends->Add(std::move(self_), std::move(record_));
  }

  grpc::ClientContext client_;
  RequestRecord record_;

 private:
  const CallContext context_;
  const std::optional<absl::Duration> intended_;
  const std::optional<absl::Duration> timeout_;
  std::shared_ptr<RecordedCall> self_;
};

// A call with one answer.
template <typename Response>
class UnaryCall final : public RecordedCall {
 public:
  using Done = std::function<void(grpc::Status)>;
  using BeginCall = std::function<void(grpc::ClientContext*, Response*, Done)>;
  // Tells the tokens and may add to the record.
  using Read = std::function<int64_t(const Response&, RequestRecord*)>;
  UnaryCall(const PlannedRequest& request, std::optional<absl::Duration> intended,
            const Target::Options& options, const CallContext& context, BeginCall begin, Read read)
      : RecordedCall(request, intended, options, context),
        begin_(std::move(begin)),
        read_(std::move(read)) {}

 private:
  void Begin() override {
    begin_(&client_, &response_, [this](const grpc::Status& status) {
      if (status.ok()) AddTokens(read_(response_, &record_));
      End(FromGrpc(status));
    });
  }

  const BeginCall begin_;
  const Read read_;
  Response response_;
};

// Stubs over connections of their own, which calls take in turns: one HTTP/2 connection is served
// by one thread at a time, so that thousands of streams may want several.
template <typename Service>
class Stubs {
 public:
  explicit Stubs(const Target::Options& options) {
    for (int32_t i = 0; i < options.connections; ++i) {
      grpc::ChannelArguments arguments;
      arguments.SetMaxReceiveMessageSize(-1);
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // or they would share one
      stubs_.push_back(Service::NewStub(grpc::CreateCustomChannel(
          options.address, grpc::InsecureChannelCredentials(), arguments)));
    }
  }
  typename Service::Stub& Next() {
    return *stubs_[next_.fetch_add(1, std::memory_order_relaxed) % stubs_.size()];
  }

 private:
  std::vector<std::unique_ptr<typename Service::Stub>> stubs_;
  std::atomic<size_t> next_{0};
};

}  // namespace penstock
