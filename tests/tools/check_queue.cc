// check_queue ADDRESS WHAT ...: one measurement of a server that generates.
//   cancels N            opens N streams and cancels each behind its first token
//   queue-timeouts N     N requests with queue timeouts behind a load that fills every slot
//   request-timeouts N S N calls that the server's request timeout of S seconds must end
//   starvation           a request of low priority under a continuous load of high ones
//   stream               one long stream, to be killed; prints a line at its first token
// Prints its figures; for timeouts the last line is "P50 P99", milliseconds from the bound to the
// status. Exits non-zero when something is wrong that does not depend on the machine's speed.

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "proto/penstock/v1/generation.grpc.pb.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr int kClients = 8;

v1::GenerateRequest LongRequest(uint32_t tokens) {
  v1::GenerateRequest request;
  request.set_text("Once upon a time");
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_max_tokens(tokens);
  request.mutable_stopping()->set_ignore_eos(true);
  return request;
}

class Client {
 public:
  explicit Client(const std::string& address)
      : stub_(v1::Generation::NewStub(
            grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))) {}

  // Reads at most `messages` (a negative number: all) and then cancels. When it ended is told.
  grpc::Status Call(const v1::GenerateRequest& request, Clock::duration timeout, int messages,
                    int* tokens = nullptr) {
    grpc::ClientContext context;
    if (timeout != Clock::duration::zero())
      context.set_deadline(std::chrono::system_clock::now() +
                           std::chrono::duration_cast<std::chrono::microseconds>(timeout));
    const auto reader = stub_->Generate(&context, request);
    v1::GenerateResponse message;
    for (int read = 0; read != messages && reader->Read(&message); ++read)
      if (tokens != nullptr) *tokens += message.token_ids_size();
    if (messages >= 0) context.TryCancel();
    return reader->Finish();
  }

 private:
  const std::unique_ptr<v1::Generation::Stub> stub_;
};

// Runs `work(client, i)` for i in [0, count), until it is false, on a few threads, each with its
// own channel.
template <typename Work>
void ForEach(const std::string& address, int count, Work work) {
  std::atomic<int> next{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kClients; ++t)
    threads.emplace_back([&] {
      Client client(address);
      for (int i = next++; i < count && work(client, i); i = next++) {
      }
    });
  for (std::thread& thread : threads) thread.join();
}

int Cancels(const std::string& address, int count) {
  std::atomic<int> wrong{0};
  ForEach(address, count, [&](Client& client, int) {
    const grpc::Status status = client.Call(LongRequest(400), {}, 1);
    if (status.error_code() != grpc::StatusCode::CANCELLED) ++wrong;
    return true;
  });
  std::printf("%d streams cancelled behind their first token, %d ended otherwise\n", count,
              wrong.load());
  return wrong == 0 ? 0 : 1;
}

// Calls keep every slot busy until it is destroyed.
class Load {
 public:
  Load(const std::string& address, const v1::GenerateRequest& request)
      : thread_([this, address, request] {
          ForEach(address, std::numeric_limits<int>::max() / 2, [&](Client& client, int) {
            if (!done_ && client.Call(request, {}, -1).ok()) ++served_;
            return !done_;
          });
        }) {
    std::this_thread::sleep_for(std::chrono::seconds(2));
  }
  ~Load() {
    done_ = true;
    thread_.join();
  }
  int served() const { return served_; }

 private:
  std::atomic<bool> done_{false};
  std::atomic<int> served_{0};
  std::thread thread_;
};

// Prints how late `count` calls ended; call i is `request(i)`, and `bound(i)` should end it.
template <typename Request, typename Bound>
int Lateness(const std::string& address, int count, Request request, Bound bound) {
  std::vector<double> late(static_cast<size_t>(count));
  std::atomic<int> wrong{0};
  ForEach(address, count, [&](Client& client, int i) {
    const Clock::time_point begin = Clock::now();
    const grpc::Status status = client.Call(request(i), {}, -1);
    late[static_cast<size_t>(i)] = Milliseconds(Clock::now() - begin).count() - bound(i);
    if (status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED) ++wrong;
    return true;
  });
  std::sort(late.begin(), late.end());
  const auto at = [&](double part) {
    return late[std::min(late.size() - 1, static_cast<size_t>(part * count))];
  };
  std::printf("%d calls, %d ended otherwise, late by %.1f to %.1f ms\n%.1f %.1f\n", count,
              wrong.load(), late.front(), late.back(), at(0.5), at(0.99));
  return wrong == 0 && late.front() > -1 ? 0 : 1;
}

int QueueTimeouts(const std::string& address, int count) {
  const Load load(address, LongRequest(64));
  const auto bound = [](int i) { return 100.0 + 10 * (i % 20); };
  const auto request = [&](int i) {
    v1::GenerateRequest late = LongRequest(64);
    late.mutable_scheduling()->set_priority(100);  // it has no chance
    late.mutable_scheduling()->set_queue_timeout_seconds(bound(i) / 1000);
    return late;
  };
  return Lateness(address, count, request, bound);
}

int RequestTimeouts(const std::string& address, int count, double seconds) {
  return Lateness(
      address, count, [](int) { return LongRequest(1000); },
      [seconds](int) { return 1000 * seconds; });
}

int Starvation(const std::string& address) {
  v1::GenerateRequest high = LongRequest(32), low = LongRequest(16);
  high.mutable_scheduling()->set_priority(-3);
  low.mutable_scheduling()->set_priority(3);
  const Load load(address, high);
  Client client(address);
  const Clock::time_point begin = Clock::now();
  int tokens = 0;
  const grpc::Status status = client.Call(low, std::chrono::minutes(2), -1, &tokens);
  std::printf(
      "priority 3 under a load of priority -3: %s with %d tokens after %.1f s (%d others "
      "were served)\n",
      status.ok() ? "finished" : status.error_message().c_str(), tokens,
      Milliseconds(Clock::now() - begin).count() / 1000, load.served());
  return status.ok() && tokens == 16 ? 0 : 1;
}

int Stream(const std::string& address) {
  const v1::GenerateRequest request = LongRequest(1000);
  grpc::ClientContext context;
  const auto stub =
      v1::Generation::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  const auto reader = stub->Generate(&context, request);
  v1::GenerateResponse message;
  if (!reader->Read(&message)) return 1;
  std::printf("streaming\n");
  std::fflush(stdout);
  while (reader->Read(&message)) {
  }
  return reader->Finish().ok() ? 0 : 1;
}

int Main(int argc, char** argv) {
  const std::string what = argc > 2 ? argv[2] : "";
  const int count = argc > 3 ? std::atoi(argv[3]) : 0;
  if (what == "cancels" && count > 0) return Cancels(argv[1], count);
  if (what == "queue-timeouts" && count > 0) return QueueTimeouts(argv[1], count);
  if (what == "request-timeouts" && count > 0 && argc > 4)
    return RequestTimeouts(argv[1], count, std::atof(argv[4]));
  if (what == "starvation") return Starvation(argv[1]);
  if (what == "stream") return Stream(argv[1]);
  std::fprintf(
      stderr,
      "usage: check_queue ADDRESS cancels N | queue-timeouts N | request-timeouts N SECONDS "
      "| starvation | stream\n");
  return 2;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) { return penstock::Main(argc, argv); }
