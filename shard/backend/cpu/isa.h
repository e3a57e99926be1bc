#pragma once

#include <span>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "shard/backend/cpu/kernel_table.h"

namespace penstock {

// The kernels of one instruction set that this CPU has.
struct Isa {
  const char* name;
  const KernelTable* kernels;
  const Bf16DotKernels* bf16_dot;  // null: none
};

// Those this CPU has, best first; the last one is scalar. Defined once per processor family.
std::span<const Isa> AvailableIsas();

// "auto" is the best one. InvalidArgument names an unknown or missing one and those there are.
absl::StatusOr<Isa> ChooseIsa(absl::string_view name);

}  // namespace penstock
