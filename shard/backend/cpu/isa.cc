#include "shard/backend/cpu/isa.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace penstock {

absl::StatusOr<Isa> ChooseIsa(absl::string_view name) {
  const std::span<const Isa> available = AvailableIsas();
  if (name == "auto") return available.front();
  std::string names = "auto";
  for (const Isa& isa : available) {
    if (name == isa.name) return isa;
    absl::StrAppend(&names, ", ", isa.name);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "instruction set '", name, "' is unknown or missing on this CPU; there are: ", names));
}

}  // namespace penstock
