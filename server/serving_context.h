#pragma once

#include "scheduler/generator.h"
#include "server/served_model.h"
#include "server/task_pool.h"

namespace penstock {

// What a call works with. Outlives every call that was let in with it.
struct ServingContext {
  ServedModel model;
  Generator& generator;
  TaskPool& text_pool;
};

}  // namespace penstock
