#include "server/kserve/infer_parameters.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "server/field_checks.h"
#include "shard/base/status_macros.h"
#include "shard/checkpoint/json.h"

namespace penstock::kserve {
namespace {

using Json = nlohmann::json;
using Inputs = std::map<std::string, InferTensor, std::less<>>;

absl::StatusOr<bool> AsBool(absl::string_view name, const Json& value) {
  bool parsed = false;
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_integer() && (value == 0 || value == 1)) return value == 1;
  if (value.is_string() && absl::SimpleAtob(value.get_ref<const std::string&>(), &parsed))
    return parsed;
  return Refuse(name, "must be a bool");
}

absl::StatusOr<double> AsNumber(absl::string_view name, const Json& value) {
  double parsed = 0;
  if (value.is_number()) return value.get<double>();
  if (value.is_string() && absl::SimpleAtod(value.get_ref<const std::string&>(), &parsed))
    return parsed;
  return Refuse(name, "must be a number");
}

absl::StatusOr<int64_t> AsInteger(absl::string_view name, const Json& value) {
  int64_t parsed = 0;
  if (value.is_number_unsigned()) return static_cast<int64_t>(value.get<uint64_t>());
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number_float() && value.get<double>() == std::floor(value.get<double>()) &&
      std::abs(value.get<double>()) < 9e15)
    return static_cast<int64_t>(value.get<double>());
  if (value.is_string() && absl::SimpleAtoi(value.get_ref<const std::string&>(), &parsed))
    return parsed;
  return Refuse(name, "must be an integer");
}

absl::StatusOr<uint32_t> AsCount(absl::string_view name, const Json& value) {
  ASSIGN_OR_RETURN(const int64_t count, AsInteger(name, value));
  if (count < 0 || count > std::numeric_limits<int32_t>::max())
    return Refuse(name, "is ", count, "; it must be in [0, 2^31)");
  return static_cast<uint32_t>(count);
}

absl::StatusOr<int32_t> AsToken(absl::string_view name, const Json& value) {
  ASSIGN_OR_RETURN(const uint32_t token, AsCount(name, value));
  return static_cast<int32_t>(token);
}

absl::StatusOr<std::string> AsString(absl::string_view name, const Json& value) {
  if (!value.is_string()) return Refuse(name, "must be a string");
  RETURN_IF_ERROR(CheckUtf8(name, value.get_ref<const std::string&>()));
  return value.get<std::string>();
}

// A list, or what stands for a list of one.
std::vector<Json> AsList(const Json& value) {
  if (value.is_array()) return {value.begin(), value.end()};
  return {value};
}

// Where parameters go.
struct Target {
  v1::GenerateRequest& request;
  AnswerOptions& options;
  v1::Sampling& sampling() const { return *request.mutable_sampling(); }
  v1::Stopping& stopping() const { return *request.mutable_stopping(); }
  v1::Output& output() const { return *request.mutable_output(); }
};
using Name = absl::string_view;
using Apply = absl::Status (*)(Name name, const Json& value, const Target& target);

template <auto Set>
absl::Status SetFloat(Name name, const Json& value, const Target& target) {
  ASSIGN_OR_RETURN(const double number, AsNumber(name, value));
  (target.sampling().*Set)(static_cast<float>(number));
  return absl::OkStatus();
}

template <auto Set>
absl::Status SetStopCount(Name name, const Json& value, const Target& target) {
  ASSIGN_OR_RETURN(const uint32_t count, AsCount(name, value));
  (target.stopping().*Set)(count);
  return absl::OkStatus();
}

template <auto Set>
absl::Status SetStopBool(Name name, const Json& value, const Target& target) {
  ASSIGN_OR_RETURN(const bool flag, AsBool(name, value));
  (target.stopping().*Set)(flag);
  return absl::OkStatus();
}

template <auto Member>
absl::Status SetOption(Name name, const Json& value, const Target& target) {
  ASSIGN_OR_RETURN(target.options.*Member, AsBool(name, value));
  return absl::OkStatus();
}

absl::Status SetTopK(Name name, const Json& value, const Target& target) {
  ASSIGN_OR_RETURN(const int64_t top_k, AsInteger(name, value));
  if (top_k < -1) return Refuse(name, "is ", top_k, "; it must be positive, or 0 or -1 for all");
  target.sampling().set_top_k(
      static_cast<uint32_t>(std::clamp<int64_t>(top_k, 0, std::numeric_limits<int32_t>::max())));
  return absl::OkStatus();
}

absl::Status SetSeed(Name name, const Json& value, const Target& target) {
  ASSIGN_OR_RETURN(const int64_t seed, AsInteger(name, value));
  target.sampling().set_seed(static_cast<uint64_t>(seed));
  return absl::OkStatus();
}

absl::Status SetLogitBias(Name name, const Json& value, const Target& target) {
  if (!value.is_object()) return Refuse(name, "must be an object of token ids and numbers");
  for (const auto& [key, bias] : value.items()) {
    ASSIGN_OR_RETURN(const int32_t token, AsToken(absl::StrCat(name, ".", key), Json(key)));
    ASSIGN_OR_RETURN(const double number, AsNumber(absl::StrCat(name, ".", key), bias));
    (*target.sampling().mutable_logit_bias())[token] = static_cast<float>(number);
  }
  return absl::OkStatus();
}

absl::Status SetStop(Name name, const Json& value, const Target& target) {
  for (const Json& entry : AsList(value)) {
    ASSIGN_OR_RETURN(std::string text, AsString(name, entry));
    if (text.empty() && !value.is_array()) continue;  // a tensor of one empty string: none
    target.stopping().add_stop(std::move(text));
  }
  return absl::OkStatus();
}

absl::Status SetStopTokens(Name name, const Json& value, const Target& target) {
  for (const Json& entry : AsList(value)) {
    ASSIGN_OR_RETURN(const int32_t token, AsToken(name, entry));
    target.stopping().add_stop_token_ids(token);
  }
  return absl::OkStatus();
}

absl::Status SetEndToken(Name name, const Json& value, const Target& target) {
  if (value == -1) return absl::OkStatus();
  return SetStopTokens(name, value, target);
}

absl::Status SetSamples(Name name, const Json& value, const Target& target) {
  ASSIGN_OR_RETURN(const uint32_t samples, AsCount(name, value));
  target.request.set_n(samples);
  return absl::OkStatus();
}

absl::Status SetLogprobs(Name name, const Json& value, const Target& target) {
  ASSIGN_OR_RETURN(const uint32_t count, AsCount(name, value));
  target.output().set_logprobs(count);
  return absl::OkStatus();
}

absl::Status SetSkipSpecial(Name name, const Json& value, const Target& target) {
  ASSIGN_OR_RETURN(const bool skip, AsBool(name, value));
  target.output().set_skip_special_tokens(skip);
  return absl::OkStatus();
}

absl::Status SetAddSpecial(Name name, const Json& value, const Target& target) {
  ASSIGN_OR_RETURN(const bool add, AsBool(name, value));
  target.request.set_add_special_tokens(add);
  return absl::OkStatus();
}

absl::Status SetSalt(Name name, const Json& value, const Target& target) {
  ASSIGN_OR_RETURN(*target.request.mutable_scheduling()->mutable_cache_salt(),
                   AsString(name, value));
  return absl::OkStatus();
}

absl::Status Nothing(Name /*name*/, const Json& /*value*/, const Target& /*target*/) {
  return absl::OkStatus();
}

struct Parameter {
  Name name;
  Name datatype;
  bool list;
  Apply apply;
};

constexpr Parameter kParameters[] = {
    {"stream", "BOOL", false, SetOption<&AnswerOptions::stream>},
    {"streaming", "BOOL", false, SetOption<&AnswerOptions::stream>},
    {"exclude_input_in_output", "BOOL", false, SetOption<&AnswerOptions::exclude_input>},
    {"exclude_input_from_output", "BOOL", false, SetOption<&AnswerOptions::exclude_input>},
    {"return_finish_reason", "BOOL", false, SetOption<&AnswerOptions::finish_reason>},
    {"return_cumulative_logprob", "BOOL", false, SetOption<&AnswerOptions::cumulative_logprob>},
    {"return_logprobs", "BOOL", false, SetOption<&AnswerOptions::logprobs>},
    {"return_log_probs", "BOOL", false, SetOption<&AnswerOptions::logprobs>},
    {"return_num_input_tokens", "BOOL", false, SetOption<&AnswerOptions::input_tokens>},
    {"return_num_output_tokens", "BOOL", false, SetOption<&AnswerOptions::output_tokens>},
    {"max_tokens", "INT32", false, SetStopCount<&v1::Stopping::set_max_tokens>},
    {"max_new_tokens", "INT32", false, SetStopCount<&v1::Stopping::set_max_tokens>},
    {"request_output_len", "INT32", false, SetStopCount<&v1::Stopping::set_max_tokens>},
    {"min_tokens", "INT32", false, SetStopCount<&v1::Stopping::set_min_tokens>},
    {"min_length", "INT32", false, SetStopCount<&v1::Stopping::set_min_tokens>},
    {"temperature", "FP32", false, SetFloat<&v1::Sampling::set_temperature>},
    {"top_k", "INT32", false, SetTopK},
    {"runtime_top_k", "INT32", false, SetTopK},
    {"top_p", "FP32", false, SetFloat<&v1::Sampling::set_top_p>},
    {"runtime_top_p", "FP32", false, SetFloat<&v1::Sampling::set_top_p>},
    {"min_p", "FP32", false, SetFloat<&v1::Sampling::set_min_p>},
    {"seed", "UINT64", false, SetSeed},
    {"random_seed", "UINT64", false, SetSeed},
    {"repetition_penalty", "FP32", false, SetFloat<&v1::Sampling::set_repetition_penalty>},
    {"presence_penalty", "FP32", false, SetFloat<&v1::Sampling::set_presence_penalty>},
    {"frequency_penalty", "FP32", false, SetFloat<&v1::Sampling::set_frequency_penalty>},
    {"logit_bias", "", false, SetLogitBias},
    {"stop", "BYTES", true, SetStop},
    {"stop_words", "BYTES", true, SetStop},
    {"stop_token_ids", "INT32", true, SetStopTokens},
    {"end_id", "INT32", false, SetEndToken},
    {"pad_id", "INT32", false, Nothing},  // nothing is padded
    {"ignore_eos", "BOOL", false, SetStopBool<&v1::Stopping::set_ignore_eos>},
    {"include_stop_str_in_output", "BOOL", false,
     SetStopBool<&v1::Stopping::set_include_stop_in_output>},
    {"skip_special_tokens", "BOOL", false, SetSkipSpecial},
    {"add_special_tokens", "BOOL", false, SetAddSpecial},
    {"n", "INT32", false, SetSamples},
    {"num_return_sequences", "INT32", false, SetSamples},
    {"logprobs", "INT32", false, SetLogprobs},
    {"cache_salt", "BYTES", false, SetSalt},
};

// Known elsewhere and not there; only the values that ask for nothing are taken.
struct Missing {
  Name name;
  const char* neutral;  // JSON, a list of values; null always is
};
constexpr Missing kMissing[] = {
    {"allowed_token_ids", "[]"},
    {"bad_words", R"([[], "", [""]])"},
    {"beam_width", "[0, 1]"},
    {"best_of", "[1]"},
    {"decoder_text_input", R"([""])"},
    {"detokenize", "[true]"},
    {"early_stopping", "[false]"},
    {"embedding_bias_weights", "[[]]"},
    {"embedding_bias_words", R"([[], "", [""]])"},
    {"guided_decoding", "[]"},
    {"guided_decoding_guide", R"([""])"},
    {"guided_decoding_guide_type", R"([""])"},
    {"guided_json", "[]"},
    {"guided_regex", "[]"},
    {"image", R"([[], "", [""]])"},
    {"len_penalty", "[0, 1]"},
    {"length_penalty", "[0, 1]"},
    {"lora_config", "[]"},
    {"lora_name", R"([""])"},
    {"lora_task_id", "[0]"},
    {"lora_weights", "[]"},
    {"multi_modal_data", "[]"},
    {"prompt_embedding_table", "[]"},
    {"prompt_logprobs", "[]"},
    {"prompt_table_extra_id", "[]"},
    {"prompt_vocab_size", "[]"},
    {"response_format", "[]"},
    {"return_context_logits", "[false]"},
    {"return_generation_logits", "[false]"},
    {"return_perf_metrics", "[false]"},
    {"spaces_between_special_tokens", "[true]"},
    {"structured_outputs", "[]"},
    {"truncate_prompt_tokens", "[]"},
    {"typical_p", "[0, 1]"},
    {"use_beam_search", "[false]"},
};

const Parameter* FindParameter(absl::string_view name) {
  for (const Parameter& parameter : kParameters)
    if (parameter.name == name) return &parameter;
  return nullptr;
}

const Missing* FindMissing(absl::string_view name) {
  for (const Missing& missing : kMissing)
    if (missing.name == name) return &missing;
  return nullptr;
}

absl::Status CheckNeutral(const Missing& missing, const Json& value) {
  const Json neutral = Json::parse(missing.neutral);
  if (std::find(neutral.begin(), neutral.end(), value) != neutral.end()) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(missing.name, " is not implemented by this server"));
}

// `loose`: an unknown name may be the client's own.
absl::Status ApplyOne(absl::string_view name, const Json& value, bool loose, const Target& target) {
  if (value.is_null()) return absl::OkStatus();
  if (const Parameter* known = FindParameter(name)) return known->apply(known->name, value, target);
  if (const Missing* missing = FindMissing(name)) return CheckNeutral(*missing, value);
  if (loose) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("\"", name, "\" is no input or parameter of this model"));
}

Json FromParameter(const inference::InferParameter& parameter) {
  switch (parameter.parameter_choice_case()) {
    case inference::InferParameter::kBoolParam: return parameter.bool_param();
    case inference::InferParameter::kInt64Param: return parameter.int64_param();
    case inference::InferParameter::kStringParam: return parameter.string_param();
    case inference::InferParameter::kDoubleParam: return parameter.double_param();
    case inference::InferParameter::kUint64Param: return parameter.uint64_param();
    case inference::InferParameter::PARAMETER_CHOICE_NOT_SET: break;
  }
  return nullptr;
}

// A tensor of one element is that element; BOOL is told apart.
Json FromTensor(const InferTensor& tensor) {
  Json list = std::visit([](const auto& values) { return Json(values); }, tensor.values);
  if (tensor.datatype == "BOOL")
    for (Json& value : list) value = value == 1;
  return list.size() == 1 ? list[0] : list;
}

absl::Status ApplyJson(const InferTensor& tensor, const Target& target) {
  if (tensor.strings() == nullptr || tensor.size() != 1)
    return Refuse("sampling_parameters", "must be one string of JSON");
  const std::string& text = (*tensor.strings())[0];
  if (text.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Json json, ParseJson(text, "sampling_parameters"));
  if (!json.is_object()) return Refuse("sampling_parameters", "is no JSON object");
  for (const auto& [name, value] : json.items())
    RETURN_IF_ERROR(ApplyOne(name, value, /*loose=*/false, target));
  return absl::OkStatus();
}

constexpr int64_t kPriorityLevels = 100;

}  // namespace

absl::Status ReadParameters(const inference::ModelInferRequest& request, const Inputs& tensors,
                            v1::GenerateRequest* to, AnswerOptions* options) {
  const Target target{*to, *options};
  for (const auto& [name, parameter] : request.parameters())
    RETURN_IF_ERROR(ApplyOne(name, FromParameter(parameter), /*loose=*/true, target));
  for (const auto& [name, tensor] : tensors) {
    if (name == "text_input" || name == "input_ids" || name == "input_lengths") continue;
    if (name == "sampling_parameters") continue;
    RETURN_IF_ERROR(ApplyOne(name, FromTensor(tensor), /*loose=*/false, target));
  }
  const auto json = tensors.find("sampling_parameters");
  if (json != tensors.end()) RETURN_IF_ERROR(ApplyJson(json->second, target));
  return absl::OkStatus();
}

std::vector<InputDescription> ParameterInputs() {
  std::vector<InputDescription> inputs;
  for (const Parameter& parameter : kParameters)
    if (!parameter.datatype.empty())
      inputs.push_back({parameter.name, parameter.datatype, parameter.list});
  return inputs;
}

absl::Status ReadProtocolParameters(const inference::ModelInferRequest& request,
                                    v1::Scheduling* to) {
  for (const auto& [name, parameter] : request.parameters()) {
    const Json value = FromParameter(parameter);
    if (name == "sequence_id" && value != 0 && value != "")
      return absl::UnimplementedError("sequence_id: this server keeps no state between requests");
    if (name == "priority") {
      ASSIGN_OR_RETURN(const int64_t level, AsInteger(name, value));
      if (level < 0 || level > kPriorityLevels)
        return Refuse(name, "is ", level, "; it must be 0 (the default) or in [1, ",
                      kPriorityLevels, "]");
      if (level > 0) to->set_priority(static_cast<int32_t>(level - kPriorityLevels / 2));
    }
    if (name == "timeout") {
      ASSIGN_OR_RETURN(const int64_t micros, AsInteger(name, value));
      if (micros < 0) return Refuse(name, "is ", micros, " microseconds");
      if (micros > 0) to->set_queue_timeout_seconds(static_cast<double>(micros) * 1e-6);
    }
    if (absl::StartsWith(name, "triton_") && name != "triton_enable_empty_final_response")
      return Refuse(name, "is no parameter of this protocol");
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> BoolParameter(const inference::ModelInferRequest& request,
                                   const std::string& name) {
  const auto found = request.parameters().find(name);
  if (found == request.parameters().end()) return false;
  return AsBool(name, FromParameter(found->second));
}

}  // namespace penstock::kserve
