#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "shard/comm/comm_options.h"
#include "shard/comm/communicator.h"

namespace penstock {

enum class Transport { kLocal, kShm, kTcp };
std::string NameOf(Transport transport);

using Group = std::vector<std::unique_ptr<Communicator>>;

// Options with a link from each rank to the next.
CommOptions LinkedOptions(int size,
                          std::chrono::milliseconds timeout = std::chrono::milliseconds(20000),
                          bool spin = false, int64_t max_elements = 4096);

// Every rank of a group "test" with such options, in this process.
Group MakeGroup(Transport transport, int size,
                std::chrono::milliseconds timeout = std::chrono::milliseconds(20000),
                bool spin = false, int64_t max_elements = 4096);

void OnEveryRank(Group& group, const std::function<void(Communicator&)>& body);

// A segment's name that no other test uses, removed at the end.
class TestSegment {
 public:
  TestSegment();
  ~TestSegment();
  operator const std::string&() const { return name_; }

 private:
  const std::string name_;
};

// rows x cols with a stride wider than the columns, and the numbers of `rank`.
struct Numbers {
  Numbers(int64_t rows, int64_t cols, int rank);
  float at(int64_t row, int64_t col) const { return matrix.F32()[row * matrix.stride + col]; }
  std::vector<float> values;
  Matrix matrix;
};

}  // namespace penstock
