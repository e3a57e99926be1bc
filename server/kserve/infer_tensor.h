#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/kserve/inference.pb.h"

namespace penstock::kserve {

// An input tensor, its elements in row-major order. Narrower and unsigned integers are widened,
// floats of any width become doubles, BOOL is 0 and 1. UINT64 beyond int64 keeps its bits.
struct InferTensor {
  std::string datatype;
  std::vector<int64_t> shape;
  std::variant<std::vector<int64_t>, std::vector<double>, std::vector<std::string>> values;

  size_t size() const {
    return std::visit([](const auto& elements) { return elements.size(); }, values);
  }
  const std::vector<int64_t>* integers() const { return std::get_if<0>(&values); }
  const std::vector<double>* numbers() const { return std::get_if<1>(&values); }
  const std::vector<std::string>* strings() const { return std::get_if<2>(&values); }
};

// The input tensors of a request by their names, from raw or typed contents. InvalidArgument,
// naming the input, for what contradicts itself: datatype, shape and contents; Unimplemented for
// shared memory.
absl::StatusOr<std::map<std::string, InferTensor, std::less<>>> ReadInputs(
    const inference::ModelInferRequest& request);

// Appends an output tensor with raw contents, which is what every client reads.
void AddStrings(absl::string_view name, const std::vector<int64_t>& shape,
                const std::vector<std::string>& values, inference::ModelInferResponse* response);
void AddFloats(absl::string_view name, const std::vector<int64_t>& shape,
               const std::vector<float>& values, inference::ModelInferResponse* response);
// `datatype`: INT32 or UINT32.
void AddIntegers(absl::string_view name, absl::string_view datatype,
                 const std::vector<int64_t>& shape, const std::vector<int32_t>& values,
                 inference::ModelInferResponse* response);

}  // namespace penstock::kserve
