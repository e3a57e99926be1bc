// all_reduce_rank RANK SIZE ADDRESS FOLDER TRIALS BYTES...: one rank of a group over TCP that adds
// up matrices in three ways; rank 0 prints a JSON object for each way and size. The ranks meet in
// FOLDER.
//
//   ring         Gloo's ring all-reduce, whose order of addition depends on the element's place
//   root         everybody sends to rank 0, which adds up and sends back (a "parameter server")
//   rank-order   GlooComm's, which adds in rank order 0..n-1 whatever the size

#include <gloo/algorithm.h>
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "shard/comm/gloo_comm.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;
using Floats = std::vector<float>;

constexpr std::chrono::milliseconds kTimeout{120000};

struct Place {
  int rank = 0, size = 0;
  std::string address, folder;
};

std::shared_ptr<gloo::rendezvous::Context> JoinGloo(const Place& place) {
  gloo::rendezvous::FileStore store(place.folder);
  auto device = gloo::transport::tcp::CreateDevice(place.address.c_str());
  auto context = std::make_shared<gloo::rendezvous::Context>(place.rank, place.size);
  context->setTimeout(kTimeout);
  context->connectFullMesh(store, device);
  return context;
}

std::unique_ptr<Communicator> JoinOwn(const Place& place, int64_t most) {
  gloo::rendezvous::FileStore store(place.folder);
  CommOptions options;
  options.timeout = kTimeout;
  options.max_elements = most;
  auto join =
      GlooJoin::Create(place.address, "all-reduce", place.rank, place.size, 1, options, kTimeout);
  if (!join.ok()) return nullptr;
  const std::string& mine = (*join)->address();
  store.set(absl::StrCat("own-", place.rank), {mine.begin(), mine.end()});
  std::vector<std::string> addresses;
  for (int rank = 0; rank < place.size; ++rank) {
    const std::string key = absl::StrCat("own-", rank);
    store.wait({key}, kTimeout);
    const std::vector<char> bytes = store.get(key);
    addresses.emplace_back(bytes.begin(), bytes.end());
  }
  auto communicator = (*join)->Connect(addresses);
  return communicator.ok() ? *std::move(communicator) : nullptr;
}

void Ring(const std::shared_ptr<gloo::Context>& context, Floats& values) {
  gloo::AllreduceOptions options(context);
  options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
  options.setOutput(values.data(), values.size());
  options.setReduceFunction([](void* sum, const void* a, const void* b, size_t count) {
    gloo::sum<float>(sum, a, b, count);
  });
  gloo::allreduce(options);
}

// Receives are posted first, so that all can send at once.
void AtRoot(const std::shared_ptr<gloo::Context>& context, Floats& values, Floats& scratch) {
  constexpr uint64_t kUp = 1000, kDown = 1001;
  auto own = context->createUnboundBuffer(values.data(), values.size() * sizeof(float));
  if (context->rank != 0) {
    own->send(0, kUp);
    own->waitSend();
    own->recv(0, kDown);
    own->waitRecv();
    return;
  }
  const auto others = static_cast<size_t>(context->size - 1);
  scratch.resize(others * values.size());
  std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> theirs;
  for (size_t i = 0; i < others; ++i) {
    theirs.push_back(context->createUnboundBuffer(scratch.data() + i * values.size(),
                                                  values.size() * sizeof(float)));
    theirs.back()->recv(static_cast<int>(i) + 1, kUp);
  }
  for (size_t i = 0; i < others; ++i) {
    theirs[i]->waitRecv();
    gloo::sum<float>(values.data(), values.data(), scratch.data() + i * values.size(),
                     values.size());
  }
  std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> replies;
  for (size_t i = 0; i < others; ++i) {
    replies.push_back(context->createUnboundBuffer(values.data(), values.size() * sizeof(float)));
    replies.back()->send(static_cast<int>(i) + 1, kDown);
  }
  for (auto& reply : replies) reply->waitSend();
}

// The median of the trials, each of enough sums to be measured, begun by all ranks together.
double Median(const std::shared_ptr<gloo::Context>& context, int trials, int64_t bytes,
              const std::function<void(Floats&)>& sum) {
  Floats values(static_cast<size_t>(bytes) / sizeof(float), 1.0f), go(1);
  const int count = static_cast<int>(std::clamp<int64_t>((int64_t{1} << 21) / bytes, 1, 200));
  std::vector<double> seconds;
  for (int trial = 0; trial < trials + 1; ++trial) {  // the first warms up
    std::fill(values.begin(), values.end(), 1.0f);
    Ring(context, go);  // all are here
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < count; ++i) sum(values);
    const std::chrono::duration<double> taken = Clock::now() - begin;
    if (trial > 0) seconds.push_back(taken.count() / count);
    if (count == 1 && values.front() != static_cast<float>(context->size)) std::exit(3);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

int Run(const Place& place, int trials, const std::vector<int64_t>& sizes) {
  const int64_t most = *std::max_element(sizes.begin(), sizes.end()) / 4;
  const auto context = JoinGloo(place);
  const auto own = JoinOwn(place, most);
  if (!own) return 2;
  Floats scratch;
  for (const int64_t bytes : sizes) {
    const std::pair<const char*, std::function<void(Floats&)>> ways[] = {
        {"ring", [&](Floats& values) { Ring(context, values); }},
        {"root", [&](Floats& values) { AtRoot(context, values, scratch); }},
        {"rank-order", [&](Floats& values) {
           const auto cols = static_cast<int64_t>(values.size());
           own->AllReduceSum({values.data(), 1, cols, cols, DType::kF32});
         }}};
    for (const auto& [way, sum] : ways) {
      const double seconds = Median(context, trials, bytes, sum);
      if (place.rank == 0)
        std::printf("{\"way\": \"%s\", \"ranks\": %d, \"bytes\": %lld, \"seconds\": %.9f}\n", way,
                    place.size, static_cast<long long>(bytes), seconds);
      std::fflush(stdout);
    }
  }
  if (!own->status().ok()) std::fprintf(stderr, "%s\n", own->status().ToString().c_str());
  return own->status().ok() ? 0 : 4;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  if (argc < 7) {
    std::fprintf(stderr, "usage: all_reduce_rank RANK SIZE ADDRESS FOLDER TRIALS BYTES...\n");
    return 2;
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::vector<int64_t> sizes;
  for (int i = 6; i < argc; ++i) sizes.push_back(std::atoll(argv[i]));
  return penstock::Run({std::atoi(argv[1]), std::atoi(argv[2]), argv[3], argv[4]},
                       std::atoi(argv[5]), sizes);
}
