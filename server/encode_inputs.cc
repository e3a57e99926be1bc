#include "server/encode_inputs.h"

#include <algorithm>
#include <utility>

#include "server/field_checks.h"
#include "shard/base/status_macros.h"

namespace penstock {

// Whatever the context is, an input runs in one step.
int32_t EncodeInputs::most_tokens() const {
  return std::min(model_.info.max_context, model_.info.max_step_tokens);
}

absl::Status EncodeInputs::CheckCount(absl::string_view field, int count) const {
  if (count == 0) return Refuse(field, "is empty");
  if (count > model_.limits.max_inputs)
    return Refuse(field, "has ", count, " entries; at most ", model_.limits.max_inputs,
                  " are allowed");
  return absl::OkStatus();
}

absl::Status EncodeInputs::AddInput(const std::string& field, const v1::Input& input) {
  switch (input.content_case()) {
    case v1::Input::kTokens:
      if (input.has_pair())
        return Refuse(field + ".pair", "is set beside tokens, which have no pair");
      return AddTokens(field, input.tokens());
    case v1::Input::kText:
      return AddText(
          field, input.text(),
          input.has_pair() ? std::optional<absl::string_view>(input.pair()) : std::nullopt);
    case v1::Input::CONTENT_NOT_SET: break;
  }
  return Refuse(field, "is empty");
}

absl::Status EncodeInputs::AddTokens(const std::string& field, const v1::TokenIds& tokens) {
  const auto most = static_cast<size_t>(most_tokens());
  Encoding encoding;
  encoding.ids.assign(tokens.ids().begin(), tokens.ids().end());
  if (encoding.ids.empty()) return Refuse(field, "is empty");
  RETURN_IF_ERROR(CheckTokens(field, encoding.ids, model_.vocab()));
  const bool truncated = truncate_ && encoding.ids.size() > most;
  if (truncated) encoding.ids.resize(most);
  return Append(field, std::move(encoding), truncated);
}

absl::Status EncodeInputs::AddText(const std::string& field, absl::string_view text,
                                   std::optional<absl::string_view> pair) {
  // Not even the special tokens make an input out of nothing: the client meant something else.
  if (text.empty()) return Refuse(field, "is empty");
  RETURN_IF_ERROR(CountText(field, text.size() + (pair ? pair->size() : 0)));
  // How many tokens a text has, its bytes don't tell: blanks may have none.
  Encoding encoding = model_.tokenizer.EncodeInput(text, pair, 0);
  const auto most = static_cast<size_t>(most_tokens());
  const bool truncated = truncate_ && encoding.ids.size() > most;
  if (truncated) encoding = model_.tokenizer.EncodeInput(text, pair, most);
  return Append(field, std::move(encoding), truncated);
}

// All of a text is encoded before it is cut, and a query once with each of its documents.
absl::Status EncodeInputs::CountText(absl::string_view field, size_t bytes) {
  text_bytes_ += bytes;
  if (text_bytes_ <= model_.limits.max_encode_bytes) return absl::OkStatus();
  return Refuse(field, "brings the call to ", text_bytes_, " bytes of text; at most ",
                model_.limits.max_encode_bytes, " are encoded (a query counts with each document)");
}

absl::Status EncodeInputs::Append(const std::string& field, Encoding encoding, bool truncated) {
  if (encoding.ids.empty()) return Refuse(field, "has no tokens");
  const auto tokens = static_cast<int64_t>(encoding.ids.size());
  if (tokens > most_tokens())
    return Refuse(field, "has ", tokens, " tokens; at most ", most_tokens(),
                  " are possible (truncate cuts it)");
  RETURN_IF_ERROR(CheckTokens(field, encoding.ids, model_.vocab()));
  // A model without segments takes pairs as they come; one with too few could not read its input.
  const int32_t types = model_.info.token_types;
  if (types == 0) encoding.types.clear();
  for (int32_t type : encoding.types)
    if (type >= types)
      return Refuse(field, "has segment ", type, "; the model knows segments below ", types);
  EncodeRequest request;
  request.tokens = std::move(encoding.ids);
  request.types = std::move(encoding.types);
  task_->requests.push_back(std::move(request));
  task_->truncated.push_back(truncated);
  return absl::OkStatus();
}

}  // namespace penstock
