#include "tests/comm/groups.h"

#include <signal.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "shard/comm/gloo_comm.h"
#include "shard/comm/local_comm.h"
#include "shard/comm/shm_comm.h"

namespace penstock {

std::string NameOf(Transport transport) {
  return transport == Transport::kLocal ? "Local" : transport == Transport::kShm ? "Shm" : "Tcp";
}

CommOptions LinkedOptions(int size, std::chrono::milliseconds timeout, bool spin,
                          int64_t max_elements) {
  CommOptions options;
  options.timeout = timeout;
  options.max_elements = max_elements;
  for (int rank = 1; rank < size; ++rank) options.links.push_back({rank - 1, rank});
  options.spin = spin;
  return options;
}

namespace {

Group MakeTcpGroup(int size, const CommOptions& options) {
  signal(SIGPIPE, SIG_IGN);  // as the program does
  std::vector<std::unique_ptr<GlooJoin>> joins;
  std::vector<std::string> addresses;
  for (int rank = 0; rank < size; ++rank) {
    auto join = GlooJoin::Create("127.0.0.1", "test", rank, size, 7, options,
                                 std::chrono::milliseconds(20000));
    EXPECT_TRUE(join.ok()) << join.status();
    joins.push_back(*std::move(join));
    addresses.push_back(joins.back()->address());
  }
  Group group(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, at = static_cast<size_t>(rank)] {
      auto comm = joins[at]->Connect(addresses);
      EXPECT_TRUE(comm.ok()) << comm.status();
      if (comm.ok()) group[at] = *std::move(comm);
    });
  for (std::thread& thread : threads) thread.join();
  return group;
}

}  // namespace

Group MakeGroup(Transport transport, int size, std::chrono::milliseconds timeout, bool spin,
                int64_t max_elements) {
  const CommOptions options = LinkedOptions(size, timeout, spin, max_elements);
  if (transport == Transport::kLocal) return MakeLocalGroup("test", size, options);
  if (transport == Transport::kTcp) return MakeTcpGroup(size, options);
  const TestSegment segment;
  const absl::Status created = CreateShmGroup(segment, size, 7, options);
  EXPECT_TRUE(created.ok()) << created;
  Group group;
  for (int rank = 0; rank < size; ++rank) {
    auto comm = JoinShmGroup(segment, "test", rank, size, 7, options);
    EXPECT_TRUE(comm.ok()) << comm.status();
    group.push_back(*std::move(comm));
  }
  return group;
}

void OnEveryRank(Group& group, const std::function<void(Communicator&)>& body) {
  std::vector<std::thread> threads;
  for (auto& comm : group) threads.emplace_back([&] { body(*comm); });
  for (auto& thread : threads) thread.join();
}

TestSegment::TestSegment()
    : name_([] {
        static int count = 0;
        return absl::StrCat("penstock-test-", getpid(), "-", count++);
      }()) {}

TestSegment::~TestSegment() { EXPECT_TRUE(RemoveShmGroup(name_).ok()); }

Numbers::Numbers(int64_t rows, int64_t cols, int rank)
    : values(static_cast<size_t>(rows * (cols + 3))) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::uniform_real_distribution<float> spread(-1e3f, 1e3f);
  for (float& value : values) value = spread(random);
  matrix = {values.data(), rows, cols, cols + 3, DType::kF32};
}

}  // namespace penstock
