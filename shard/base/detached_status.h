#pragma once

#include "absl/status/status.h"

namespace penstock {

// A copy that shares nothing with `status`, for handing it to another thread: copies of a Status
// share a reference-counted message, and ThreadSanitizer cannot see a packaged Abseil count.
// Payloads, which the project does not use, are left behind.
inline absl::Status Detached(const absl::Status& status) {
  return absl::Status(status.code(), status.message());
}

}  // namespace penstock
