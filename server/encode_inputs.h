#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/penstock/v1/encoding.pb.h"
#include "server/encode_method.h"
#include "server/served_model.h"

namespace penstock {

// Appends inputs of a one-shot call to a task. Errors name the field and the input.
class EncodeInputs {
 public:
  // Borrows both. `truncate`: cut what is too long instead of refusing it.
  EncodeInputs(const ServedModel& model, bool truncate, EncodeTask* task)
      : model_(model), truncate_(truncate), task_(task) {}

  // Between 1 and RequestLimits::max_inputs.
  absl::Status CheckCount(absl::string_view field, int count) const;
  absl::Status AddInput(const std::string& field, const v1::Input& input);
  absl::Status AddText(const std::string& field, absl::string_view text,
                       std::optional<absl::string_view> pair);

 private:
  absl::Status AddTokens(const std::string& field, const v1::TokenIds& tokens);
  absl::Status CountText(absl::string_view field, size_t bytes);
  absl::Status Append(const std::string& field, Encoding encoding, bool truncated);
  int32_t most_tokens() const;

  const ServedModel& model_;
  const bool truncate_;
  EncodeTask* const task_;
  size_t text_bytes_ = 0;  // of the call so far
};

}  // namespace penstock
