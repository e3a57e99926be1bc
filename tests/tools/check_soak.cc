// check_soak ADDRESS SECONDS STREAMS: first asks each well-formed request of a quiet server, then
// keeps STREAMS calls open at once, of which some are cancelled on the way, some are malformed and
// the rest must be answered exactly as on the quiet server. Prints the counts; exits non-zero when
// an answer differed, a bad request was let through or a good one was refused.

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "proto/penstock/v1/generation.grpc.pb.h"
#include "shard/base/mutex.h"
#include "tests/tools/soak_requests.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;

// What a client sees of an answer: per sample the ids, the text and how it ended.
struct Answer {
  struct Sample {
    std::vector<int32_t> ids;
    std::string text;
    int reason = 0;
    bool operator==(const Sample&) const = default;
  };
  std::map<uint32_t, Sample> samples;
  grpc::Status status;
};

struct Counts {
  std::atomic<int> equal{0}, cancelled{0}, refused{0}, wrong{0};
};

class Soak {
 public:
  Soak(const std::string& address, std::chrono::seconds duration)
      : address_(address), deadline_(Clock::now() + duration), requests_(WellFormedRequests()) {}

  // Asks each request alone. False when one fails.
  bool LearnAnswers() {
    for (const v1::GenerateRequest& request : requests_) {
      answers_.push_back(Ask(request, -1));
      if (answers_.back().status.ok()) continue;
      Complain(request, answers_.back().status.error_message());
      return false;
    }
    return true;
  }

  // One client, until the deadline.
  void Run(uint32_t seed) {
    std::mt19937 random(seed);
    while (Clock::now() < deadline_) {
      const uint32_t dice = random() % 100;
      if (dice < 60)
        AskAndCompare(random() % requests_.size());
      else if (dice < 80)
        AskAndCancel(random() % requests_.size(), random() % 6);
      else if (dice < 95)
        AskMalformed(MalformedRequest(random));
      else
        SendBytes(RandomBytes(random));
    }
  }

  const Counts& counts() const { return counts_; }

 private:
  // Cancels behind `cancel_after` messages; never when it is negative.
  Answer Ask(const v1::GenerateRequest& request, int cancel_after) {
    Answer answer;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(300));
    const auto reader = stub_->Generate(&context, request);
    if (cancel_after == 0) context.TryCancel();
    v1::GenerateResponse message;
    for (int messages = 1; reader->Read(&message); ++messages) {
      Answer::Sample& sample = answer.samples[message.index()];
      sample.ids.insert(sample.ids.end(), message.token_ids().begin(), message.token_ids().end());
      sample.text += message.text();
      sample.reason = message.finish_reason();
      if (messages == cancel_after) context.TryCancel();
    }
    answer.status = reader->Finish();
    return answer;
  }

  void AskAndCompare(size_t which) {
    const Answer answer = Ask(requests_[which], -1);
    if (answer.status.ok() && answer.samples == answers_[which].samples) {
      ++counts_.equal;
    } else {
      Complain(requests_[which],
               answer.status.ok() ? "another answer than alone" : answer.status.error_message());
    }
  }

  void AskAndCancel(size_t which, uint32_t after) {
    const Answer answer = Ask(requests_[which], static_cast<int>(after));
    if (answer.status.ok() || answer.status.error_code() == grpc::StatusCode::CANCELLED) {
      ++counts_.cancelled;  // it may have ended before the cancellation arrived
    } else {
      Complain(requests_[which], "cancelled, but: " + answer.status.error_message());
    }
  }

  void AskMalformed(const v1::GenerateRequest& request) {
    const grpc::StatusCode code = Ask(request, -1).status.error_code();
    if (code == grpc::StatusCode::INVALID_ARGUMENT || code == grpc::StatusCode::NOT_FOUND) {
      ++counts_.refused;
    } else {
      Complain(request, "malformed, but the status was " + std::to_string(code));
    }
  }

  // Only what cannot be understood must fail; the server must survive all of it.
  void SendBytes(const std::string& bytes) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(300));
    grpc::CompletionQueue queue;
    const grpc::Slice slice(bytes);
    const grpc::ByteBuffer request(&slice, 1);
    auto call =
        generic_->PrepareUnaryCall(&context, "/penstock.v1.Generation/Generate", request, &queue);
    grpc::ByteBuffer response;
    grpc::Status status;
    call->StartCall();
    call->Finish(&response, &status, this);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    ++counts_.refused;
  }

  void Complain(const v1::GenerateRequest& request, const std::string& what) {
    if (++counts_.wrong > 20) return;
    MutexLock lock(&print_mutex_);
    std::fprintf(stderr, "%s\n  %.300s\n", what.c_str(), request.ShortDebugString().c_str());
  }

  const std::string address_;
  const Clock::time_point deadline_;
  const std::vector<v1::GenerateRequest> requests_;
  std::vector<Answer> answers_;  // parallel to requests_
  const std::shared_ptr<grpc::Channel> channel_ =
      grpc::CreateChannel(address_, grpc::InsecureChannelCredentials());
  const std::unique_ptr<v1::Generation::Stub> stub_ = v1::Generation::NewStub(channel_);
  const std::unique_ptr<grpc::GenericStub> generic_ = std::make_unique<grpc::GenericStub>(channel_);
  Counts counts_;
  Mutex print_mutex_;
};

int Run(const std::string& address, int seconds, int streams) {
  Soak soak(address, std::chrono::seconds(seconds));
  if (!soak.LearnAnswers()) return 1;
  std::vector<std::thread> clients;
  for (int i = 0; i < streams; ++i)
    clients.emplace_back([&soak, i] { soak.Run(static_cast<uint32_t>(i)); });
  for (std::thread& client : clients) client.join();
  const Counts& counts = soak.counts();
  std::printf("%d answers equal to the solo run, %d cancelled, %d refused, %d wrong\n",
              counts.equal.load(), counts.cancelled.load(), counts.refused.load(),
              counts.wrong.load());
  return counts.wrong == 0 && counts.equal > 0 && counts.cancelled > 0 && counts.refused > 0 ? 0
                                                                                             : 1;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: check_soak ADDRESS SECONDS STREAMS\n");
    return 2;
  }
  return penstock::Run(argv[1], std::atoi(argv[2]), std::atoi(argv[3]));
}
