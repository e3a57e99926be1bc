#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/bench/profile_report.h"

namespace penstock {

// What `penstock bench --profile` measures, without a server.
struct ProfileOptions {
  std::string model;  // a checkpoint's path
  int threads = 0;    // 0: all processors that the process may use
  std::string dtype = "auto", compute = "auto";
  std::vector<int> sequences = {1, 16};  // a decode step each
  int context = 128;                     // of each sequence
  int prompt = 512;                      // tokens of the prefill step; of an encoder, the text
};

// InvalidArgument names the option.
absl::Status CheckProfile(const ProfileOptions& options);

// Loads the model and runs steps of each kind for about a second.
absl::StatusOr<ProfileReport> ProfileSteps(const ProfileOptions& options);

}  // namespace penstock
