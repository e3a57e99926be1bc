#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// The project's only control-flow macros: leave the function with a non-OK status.

#define PENSTOCK_CONCAT_(a, b) a##b
#define PENSTOCK_CONCAT(a, b) PENSTOCK_CONCAT_(a, b)

#define RETURN_IF_ERROR(expr)                                                                    \
  do {                                                                                           \
    if (absl::Status returned_status_ = (expr); !returned_status_.ok()) return returned_status_; \
  } while (false)

#define ASSIGN_OR_RETURN(lhs, expr) \
  ASSIGN_OR_RETURN_(PENSTOCK_CONCAT(assigned_result_, __LINE__), lhs, expr)
#define ASSIGN_OR_RETURN_(result, lhs, expr) \
  auto result = (expr);                      \
  if (!result.ok()) return result.status();  \
  lhs = *std::move(result)
