#pragma once

#include "server/call_environment.h"
#include "server/call_gate.h"
#include "server/call_loop.h"

namespace penstock {

// What the services of a server answer with; outlives them.
struct Front {
  CallGate& gate;
  CallEnvironment environment;
  CallLoop& loop;
};

}  // namespace penstock
