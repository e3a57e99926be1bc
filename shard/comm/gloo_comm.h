#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "shard/comm/comm_options.h"
#include "shard/comm/communicator.h"

namespace penstock {

class GlooMesh;

// One rank's way into a group whose ranks are processes of any hosts, joined by TCP (Gloo). In two
// phases, since each rank must know where the others listen. Used by one thread.
//
// What goes between the ranks is neither encrypted nor authenticated: `bind` should be an address
// of a network that nobody else is on.
class GlooJoin {
 public:
  // Listens on the interface with the address (or host name) `bind`, there only. `group` names the
  // group in errors ("tensor (stage 0)"). Connect() will wait for `connect_timeout` for each other
  // rank. Unavailable when `bind` is no address of this host.
  static absl::StatusOr<std::unique_ptr<GlooJoin>> Create(
      const std::string& bind, const std::string& group, int rank, int size, uint64_t epoch,
      const CommOptions& options, std::chrono::milliseconds connect_timeout);
  ~GlooJoin();

  const std::string& address() const;  // for the other ranks; any bytes

  // `addresses`: of all ranks; one's own is not looked at. Waits for the others: DeadlineExceeded
  // or Unavailable, naming the rank. FailedPrecondition for an address of
  // another group, epoch or size, InvalidArgument for what is none. Once.
  absl::StatusOr<std::unique_ptr<Communicator>> Connect(const std::vector<std::string>& addresses);

 private:
  GlooJoin(std::unique_ptr<GlooMesh> mesh, std::string group, int rank, int size,
           CommOptions options);

  std::unique_ptr<GlooMesh> mesh_;
  const std::string group_;
  const int rank_, size_;
  const CommOptions options_;
};

}  // namespace penstock
