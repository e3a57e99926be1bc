#include "server/kserve/model_description.h"

#include <string>
#include <vector>

#include "server/kserve/infer_parameters.h"
#include "server/kserve/infer_request.h"

namespace penstock::kserve {
namespace {

struct Tensor {
  std::string name;
  std::string datatype;
  std::vector<int64_t> dims;  // without the batch's
  bool optional = true;
};

struct Signature {
  std::vector<Tensor> inputs, outputs;
  int32_t max_batch = 0;  // 0: no batch dimension
};

Signature GeneratorSignature() {
  Signature signature;
  // Clients that make up their input send text; input_ids may be there instead.
  signature.inputs = {{"text_input", "BYTES", {1}, false}, {"input_ids", "INT32", {-1}}};
  signature.inputs.push_back({"sampling_parameters", "BYTES", {1}});
  for (const InputDescription& input : ParameterInputs())
    signature.inputs.push_back(
        {std::string(input.name), std::string(input.datatype), {input.list ? -1 : 1}});
  signature.outputs = {{"text_output", "BYTES", {-1}},       {"output_ids", "INT32", {1, -1}},
                       {"finish_reason", "BYTES", {-1}},     {"cumulative_logprob", "FP32", {-1}},
                       {"logprobs", "BYTES", {-1}},          {"num_input_tokens", "UINT32", {1}},
                       {"num_output_tokens", "UINT32", {-1}}};
  return signature;
}

Signature EncoderSignature(const ServedModel& model) {
  Signature signature;
  signature.inputs = {{"text", "BYTES", {1}, false},
                      {"pair", "BYTES", {1}},
                      {"input_ids", "INT64", {-1}},
                      {"attention_mask", "INT64", {-1}}};
  const int64_t width = model.info.output_width;
  signature.outputs = {{model.kind() == "classify" ? "scores" : "embedding", "FP32", {width}}};
  signature.max_batch = model.limits.max_inputs;
  return signature;
}

Signature SignatureOf(const ServedModel& model) {
  return model.encoder ? EncoderSignature(model) : GeneratorSignature();
}

void Describe(const Signature& signature, const Tensor& tensor,
              inference::ModelMetadataResponse::TensorMetadata* to) {
  to->set_name(tensor.name);
  to->set_datatype(tensor.datatype);
  if (signature.max_batch > 0) to->add_shape(-1);
  for (int64_t dim : tensor.dims) to->add_shape(dim);
}

inference::DataType TypeOf(const std::string& datatype) {
  inference::DataType type = inference::TYPE_INVALID;
  inference::DataType_Parse("TYPE_" + (datatype == "BYTES" ? "STRING" : datatype), &type);
  return type;
}

constexpr char kPlatform[] = "penstock";

}  // namespace

inference::ModelMetadataResponse DescribeModel(const ServedModel& model) {
  const Signature signature = SignatureOf(model);
  inference::ModelMetadataResponse response;
  response.set_name(model.name);
  response.add_versions(kModelVersion);
  response.set_platform(kPlatform);
  for (const Tensor& tensor : signature.inputs) Describe(signature, tensor, response.add_inputs());
  for (const Tensor& tensor : signature.outputs)
    Describe(signature, tensor, response.add_outputs());
  (*response.mutable_properties())["kind"] = std::string(model.kind());
  return response;
}

inference::ModelConfig ConfigOf(const ServedModel& model) {
  const Signature signature = SignatureOf(model);
  inference::ModelConfig config;
  config.set_name(model.name);
  config.set_platform(kPlatform);
  config.set_backend(kPlatform);
  config.set_max_batch_size(signature.max_batch);
  for (const Tensor& tensor : signature.inputs) {
    inference::ModelInput* input = config.add_input();
    input->set_name(tensor.name);
    input->set_data_type(TypeOf(tensor.datatype));
    input->mutable_dims()->Assign(tensor.dims.begin(), tensor.dims.end());
    input->set_optional(tensor.optional);
  }
  for (const Tensor& tensor : signature.outputs) {
    inference::ModelOutput* output = config.add_output();
    output->set_name(tensor.name);
    output->set_data_type(TypeOf(tensor.datatype));
    output->mutable_dims()->Assign(tensor.dims.begin(), tensor.dims.end());
  }
  config.mutable_dynamic_batching()->set_priority_levels(100);
  config.mutable_dynamic_batching()->set_default_priority_level(50);
  config.mutable_dynamic_batching()->mutable_default_queue_policy()->set_allow_timeout_override(
      true);
  config.mutable_model_transaction_policy()->set_decoupled(!model.encoder);
  inference::ModelInstanceGroup* group = config.add_instance_group();
  group->set_name(model.name);
  group->set_count(1);
  group->set_kind(inference::ModelInstanceGroup::KIND_MODEL);
  return config;
}

}  // namespace penstock::kserve
