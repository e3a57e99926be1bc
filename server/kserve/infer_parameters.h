#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/kserve/inference.pb.h"
#include "proto/penstock/v1/generation.pb.h"
#include "server/kserve/infer_tensor.h"

namespace penstock::kserve {

// What a request to a model that generates asks for beside what penstock.v1 knows.
struct AnswerOptions {
  bool stream = false;                // deltas, and not one answer
  std::optional<bool> exclude_input;  // from the text; unset: it is in, unless streaming
  bool finish_reason = false;
  bool cumulative_logprob = false;
  bool logprobs = false;
  bool input_tokens = false;  // their number
  bool output_tokens = false;
};

// Fills in what a request asks for by name, under the names that the front ends of vLLM and
// TensorRT-LLM take: in its `parameters`, in input tensors of those names, and as JSON in the
// tensor `sampling_parameters`. Said in several places, the last of these counts. Numbers may be
// strings.
//
// Errors name the parameter: InvalidArgument for a wrong type, Unimplemented for what is known but
// not there, unless its value asks for nothing. Unknown names are refused, but for those in
// `parameters`, where clients have entries of their own.
absl::Status ReadParameters(const inference::ModelInferRequest& request,
                            const std::map<std::string, InferTensor, std::less<>>& tensors,
                            v1::GenerateRequest* to, AnswerOptions* options);

// An input that a model's metadata tells of.
struct InputDescription {
  absl::string_view name;
  absl::string_view datatype;
  bool list;  // of any length; otherwise one element
};
std::vector<InputDescription> ParameterInputs();

// The entries of `parameters` that are the protocol's own: priority and timeout into `to`; those of
// sequences are refused.
absl::Status ReadProtocolParameters(const inference::ModelInferRequest& request,
                                    v1::Scheduling* to);

// A bool of `parameters`; absent: false.
absl::StatusOr<bool> BoolParameter(const inference::ModelInferRequest& request,
                                   const std::string& name);

}  // namespace penstock::kserve
