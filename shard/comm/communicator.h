#pragma once

#include "absl/status/status.h"
#include "shard/backend/matrix.h"

namespace penstock {

// A named group of ranks that talk to one another: tensor (the ranks of one stage) or pipeline (one
// rank of each stage). Every rank calls the same operations in the same order; a group of one
// simply works. Sums are taken in rank order 0..n-1 for every element, whatever the size.
//
// Errors are sticky: after the first one, or Abort(), every operation returns at once without
// effect and status() tells why, naming the group, the rank and the operation. Operations belong to
// the rank's thread; Abort() and status() are thread-safe.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  virtual void AllReduceSum(Matrix inout) = 0;  // f32
  // all has size() * mine.rows rows: rank r's matrix at row r * mine.rows.
  virtual void AllGather(Matrix mine, Matrix all) = 0;
  virtual void Broadcast(int root, Matrix inout) = 0;
  virtual void Send(Matrix from, int to_rank) = 0;  // returns when `from` may be changed
  virtual void Recv(int from_rank, Matrix to) = 0;

  virtual absl::Status status() const = 0;
  virtual void Abort(const absl::Status& why) = 0;

  // Seconds this rank has spent moving data in Send and Recv, waiting for the peer excluded.
  virtual double transfer_seconds() const = 0;
  // Seconds this rank has spent waiting for a peer, in any operation.
  virtual double wait_seconds() const = 0;
};

}  // namespace penstock
