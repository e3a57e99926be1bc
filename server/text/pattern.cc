#include "server/text/pattern.h"

#include "server/text/json_fields.h"
#include "shard/base/status_macros.h"

namespace penstock {

absl::StatusOr<Regex> PatternField(const nlohmann::json& node) {
  ASSIGN_OR_RETURN(const nlohmann::json* pattern, ObjectField(node, "pattern"));
  if (FindField(*pattern, "String") != nullptr) {
    ASSIGN_OR_RETURN(const std::string text, StringField(*pattern, "String"));
    return Regex::Literal(text);
  }
  if (FindField(*pattern, "Regex") != nullptr) {
    ASSIGN_OR_RETURN(const std::string expression, StringField(*pattern, "Regex"));
    return Regex::Compile(expression);
  }
  return FieldError(node, "pattern", "has neither 'String' nor 'Regex'");
}

}  // namespace penstock
