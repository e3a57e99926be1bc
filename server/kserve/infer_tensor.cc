#include "server/kserve/infer_tensor.h"

#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/field_checks.h"
#include "shard/base/half.h"
#include "shard/base/status_macros.h"

namespace penstock::kserve {
namespace {

using Contents = inference::InferTensorContents;
using Input = inference::ModelInferRequest::InferInputTensor;

std::string NameOf(const Input& input) { return absl::StrCat("input \"", input.name(), "\""); }

// Little-endian elements of T, widened to To.
template <typename T, typename To>
std::vector<To> FromRaw(absl::string_view raw) {
  std::vector<To> values(raw.size() / sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, raw.data() + i * sizeof(T), sizeof(T));
    values[i] = static_cast<To>(value);
  }
  return values;
}

template <float (*Convert)(uint16_t)>
std::vector<double> FromHalves(absl::string_view raw) {
  std::vector<double> values;
  for (uint16_t half : FromRaw<uint16_t, uint16_t>(raw)) values.push_back(Convert(half));
  return values;
}

// Typed contents carry narrow integers in wide fields; what counts are the low bytes.
template <typename T, typename Field>
std::vector<int64_t> Narrow(const Field& field) {
  std::vector<int64_t> values;
  for (const auto value : field) values.push_back(static_cast<int64_t>(static_cast<T>(value)));
  return values;
}

template <typename To, typename Field>
std::vector<To> Copy(const Field& field) {
  return {field.begin(), field.end()};
}

using Values = decltype(InferTensor::values);

struct Datatype {
  absl::string_view name;
  size_t bytes;  // of an element; 0: each tells its own
  Values (*raw)(absl::string_view);
  std::optional<Values> (*typed)(const Contents&);  // null: has no typed contents
};

constexpr Datatype kDatatypes[] = {
    {"BOOL", 1, [](absl::string_view raw) -> Values { return FromRaw<uint8_t, int64_t>(raw); },
     [](const Contents& c) -> std::optional<Values> { return Copy<int64_t>(c.bool_contents()); }},
    {"INT8", 1, [](absl::string_view raw) -> Values { return FromRaw<int8_t, int64_t>(raw); },
     [](const Contents& c) -> std::optional<Values> { return Narrow<int8_t>(c.int_contents()); }},
    {"INT16", 2, [](absl::string_view raw) -> Values { return FromRaw<int16_t, int64_t>(raw); },
     [](const Contents& c) -> std::optional<Values> { return Narrow<int16_t>(c.int_contents()); }},
    {"INT32", 4, [](absl::string_view raw) -> Values { return FromRaw<int32_t, int64_t>(raw); },
     [](const Contents& c) -> std::optional<Values> { return Copy<int64_t>(c.int_contents()); }},
    {"INT64", 8, [](absl::string_view raw) -> Values { return FromRaw<int64_t, int64_t>(raw); },
     [](const Contents& c) -> std::optional<Values> { return Copy<int64_t>(c.int64_contents()); }},
    {"UINT8", 1, [](absl::string_view raw) -> Values { return FromRaw<uint8_t, int64_t>(raw); },
     [](const Contents& c) -> std::optional<Values> { return Narrow<uint8_t>(c.uint_contents()); }},
    {"UINT16", 2, [](absl::string_view raw) -> Values { return FromRaw<uint16_t, int64_t>(raw); },
     [](const Contents& c) -> std::optional<Values> {
       return Narrow<uint16_t>(c.uint_contents());
     }},
    {"UINT32", 4, [](absl::string_view raw) -> Values { return FromRaw<uint32_t, int64_t>(raw); },
     [](const Contents& c) -> std::optional<Values> { return Copy<int64_t>(c.uint_contents()); }},
    {"UINT64", 8, [](absl::string_view raw) -> Values { return FromRaw<int64_t, int64_t>(raw); },
     [](const Contents& c) -> std::optional<Values> {
       return Narrow<uint64_t>(c.uint64_contents());
     }},
    {"FP16", 2, [](absl::string_view raw) -> Values { return FromHalves<HalfToFloat>(raw); },
     nullptr},
    {"BF16", 2, [](absl::string_view raw) -> Values { return FromHalves<Bf16ToFloat>(raw); },
     nullptr},
    {"FP32", 4, [](absl::string_view raw) -> Values { return FromRaw<float, double>(raw); },
     [](const Contents& c) -> std::optional<Values> { return Copy<double>(c.fp32_contents()); }},
    {"FP64", 8, [](absl::string_view raw) -> Values { return FromRaw<double, double>(raw); },
     [](const Contents& c) -> std::optional<Values> { return Copy<double>(c.fp64_contents()); }},
    {"BYTES", 0, nullptr,
     [](const Contents& c) -> std::optional<Values> {
       return Copy<std::string>(c.bytes_contents());
     }},
};

const Datatype* FindDatatype(absl::string_view name) {
  for (const Datatype& datatype : kDatatypes)
    if (datatype.name == name) return &datatype;
  return nullptr;
}

// Each string behind its length as 4 bytes.
absl::StatusOr<Values> ReadRawStrings(const std::string& name, absl::string_view raw) {
  std::vector<std::string> strings;
  while (!raw.empty()) {
    uint32_t length = 0;
    if (raw.size() < sizeof(length)) return Refuse(name, "ends within the length of a string");
    std::memcpy(&length, raw.data(), sizeof(length));
    raw.remove_prefix(sizeof(length));
    if (raw.size() < length)
      return Refuse(name, "has a string of ", length, " bytes of which ", raw.size(), " are there");
    strings.emplace_back(raw.substr(0, length));
    raw.remove_prefix(length);
  }
  return strings;
}

absl::StatusOr<Values> ReadRaw(const std::string& name, const Datatype& datatype,
                               absl::string_view raw) {
  if (datatype.bytes == 0) return ReadRawStrings(name, raw);
  if (raw.size() % datatype.bytes != 0)
    return Refuse(name, "has ", raw.size(), " raw bytes, which are no whole elements of ",
                  datatype.name);
  return datatype.raw(raw);
}

// The elements that a shape has.
absl::StatusOr<uint64_t> CountOf(const std::string& name, const Input& input) {
  uint64_t count = 1;
  for (int64_t dim : input.shape()) {
    if (dim < 0) return Refuse(name, "has the dimension ", dim, " in its shape");
    if (__builtin_mul_overflow(count, static_cast<uint64_t>(dim), &count))
      return Refuse(name, "has a shape of too many elements");
  }
  return count;
}

absl::StatusOr<InferTensor> ReadInput(const Input& input, const std::string* raw) {
  const std::string name = NameOf(input);
  if (input.parameters().contains("shared_memory_region"))
    return absl::UnimplementedError(
        absl::StrCat(name, " is in shared memory, which this server does not map"));
  const Datatype* datatype = FindDatatype(input.datatype());
  if (datatype == nullptr)
    return Refuse(name, "has the unknown datatype \"", input.datatype(), "\"");
  ASSIGN_OR_RETURN(const uint64_t count, CountOf(name, input));
  InferTensor tensor;
  tensor.datatype = input.datatype();
  tensor.shape.assign(input.shape().begin(), input.shape().end());
  if (raw != nullptr) {
    ASSIGN_OR_RETURN(tensor.values, ReadRaw(name, *datatype, *raw));
  } else {
    if (datatype->typed == nullptr)
      return Refuse(name, "is of ", datatype->name, ", which has raw contents only");
    tensor.values = *datatype->typed(input.contents());
  }
  if (tensor.size() != count)
    return Refuse(name, "has ", tensor.size(), " elements of ", datatype->name, "; its shape says ",
                  count);
  return tensor;
}

template <typename T>
std::string RawOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

void AddOutput(absl::string_view name, absl::string_view datatype,
               const std::vector<int64_t>& shape, std::string raw,
               inference::ModelInferResponse* response) {
  inference::ModelInferResponse::InferOutputTensor* output = response->add_outputs();
  output->set_name(std::string(name));
  output->set_datatype(std::string(datatype));
  output->mutable_shape()->Assign(shape.begin(), shape.end());
  response->add_raw_output_contents(std::move(raw));
}

}  // namespace

absl::StatusOr<std::map<std::string, InferTensor, std::less<>>> ReadInputs(
    const inference::ModelInferRequest& request) {
  const int raws = request.raw_input_contents_size();
  if (raws != 0 && raws != request.inputs_size())
    return Refuse("raw_input_contents", "has ", raws, " entries for ", request.inputs_size(),
                  " inputs");
  std::map<std::string, InferTensor, std::less<>> tensors;
  for (int i = 0; i < request.inputs_size(); ++i) {
    const Input& input = request.inputs(i);
    if (raws != 0 && input.has_contents())
      return Refuse(NameOf(input), "has contents beside raw_input_contents");
    ASSIGN_OR_RETURN(InferTensor tensor,
                     ReadInput(input, raws != 0 ? &request.raw_input_contents(i) : nullptr));
    if (!tensors.emplace(input.name(), std::move(tensor)).second)
      return Refuse(NameOf(input), "is there twice");
  }
  return tensors;
}

void AddStrings(absl::string_view name, const std::vector<int64_t>& shape,
                const std::vector<std::string>& values, inference::ModelInferResponse* response) {
  std::string raw;
  for (const std::string& value : values) {
    const auto length = static_cast<uint32_t>(value.size());
    raw.append(reinterpret_cast<const char*>(&length), sizeof(length));
    raw.append(value);
  }
  AddOutput(name, "BYTES", shape, std::move(raw), response);
}

void AddFloats(absl::string_view name, const std::vector<int64_t>& shape,
               const std::vector<float>& values, inference::ModelInferResponse* response) {
  AddOutput(name, "FP32", shape, RawOf(values), response);
}

void AddIntegers(absl::string_view name, absl::string_view datatype,
                 const std::vector<int64_t>& shape, const std::vector<int32_t>& values,
                 inference::ModelInferResponse* response) {
  AddOutput(name, datatype, shape, RawOf(values), response);
}

}  // namespace penstock::kserve
