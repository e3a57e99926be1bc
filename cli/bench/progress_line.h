#pragma once

#include <cstdio>

#include "absl/time/time.h"
#include "cli/bench/load_driver.h"

namespace penstock {

// Tells how a run stands: on one line that is overwritten, on a terminal, else on a line of its own
// every few seconds.
class ProgressLine {
 public:
  ProgressLine(std::FILE* out, bool terminal) : out_(out), terminal_(terminal) {}
  ~ProgressLine() { Clear(); }

  absl::Duration period() const { return terminal_ ? absl::Milliseconds(500) : absl::Seconds(5); }
  void Show(const LoadProgress& progress);
  // Takes the line away, so that something else can be printed.
  void Clear();

 private:
  std::FILE* const out_;
  const bool terminal_;
  bool shown_ = false;
  LoadProgress last_;
};

}  // namespace penstock
