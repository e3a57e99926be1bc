#include "shard/comm/local_comm.h"

#include <cstring>
#include <new>

#include "shard/comm/group_block.h"
#include "shard/comm/group_comm.h"

namespace penstock {
namespace {

std::shared_ptr<void> TakeZeros(int64_t bytes) {
  constexpr std::align_val_t kPage{4096};
  void* memory = ::operator new(static_cast<size_t>(bytes), kPage);
  std::memset(memory, 0, static_cast<size_t>(bytes));
  return {memory, [](void* address) { ::operator delete(address, kPage); }};
}

}  // namespace

std::vector<std::unique_ptr<Communicator>> MakeLocalGroup(const std::string& name, int size,
                                                          const LocalCommOptions& options) {
  GroupBlock block(TakeZeros(GroupBlock::Bytes(size, options)), size, options);
  block.Format(0);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.push_back(MakeGroupComm(block, name, rank, options));
  return ranks;
}

int64_t LocalGroupBytes(int size, const LocalCommOptions& options) {
  return GroupBlock::Bytes(size, options);
}

}  // namespace penstock
