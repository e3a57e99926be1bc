#pragma once

#include "server/call_bounds.h"
#include "server/metrics.h"
#include "server/timer.h"

namespace penstock {

// What every call has from the server, beside the model; outlives all of them.
struct CallEnvironment {
  Metrics& metrics;
  Timer& timer;
  CallBounds bounds;
};

}  // namespace penstock
