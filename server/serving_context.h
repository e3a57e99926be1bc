#pragma once

#include "scheduler/encoder.h"
#include "scheduler/generator.h"
#include "server/served_model.h"
#include "server/task_pool.h"

namespace penstock {

// What a call works with. Outlives every call that was let in with it.
struct ServingContext {
  ServedModel model;
  Generator* generator;  // null: a one-shot model
  TaskPool& text_pool;
  Encoder* encoder = nullptr;  // set: a one-shot model
  int replicas = 1;            // behind them, each of which is warmed up

  // Of all replicas together. Thread-safe.
  SchedulerState state() const {
    return encoder != nullptr ? encoder->state() : generator->state();
  }
};

}  // namespace penstock
