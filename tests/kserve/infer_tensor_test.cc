// Tensors of requests and responses: every datatype, raw and typed, and all that contradicts
// itself.
#include "server/kserve/infer_tensor.h"

#include <cstring>
#include <functional>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace penstock::kserve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <typename T>
std::string Raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

inference::ModelInferRequest RequestOf(const std::string& datatype,
                                       const std::vector<int64_t>& shape) {
  inference::ModelInferRequest request;
  auto* input = request.add_inputs();
  input->set_name("x");
  input->set_datatype(datatype);
  input->mutable_shape()->Assign(shape.begin(), shape.end());
  return request;
}

absl::StatusOr<InferTensor> ReadOne(const inference::ModelInferRequest& request) {
  auto tensors = ReadInputs(request);
  if (!tensors.ok()) return tensors.status();
  return tensors->at("x");
}

struct IntegerCase {
  std::string datatype, raw;
  std::vector<int64_t> values;
  std::function<void(inference::InferTensorContents*)> fill;
};

TEST(InferTensorTest, EveryIntegerDatatypeIsReadFromRawAndTypedContents) {
  const auto ints = [](auto* c) { c->mutable_int_contents()->Add(-2), c->add_int_contents(3); };
  const auto uints = [](auto* c) { c->mutable_uint_contents()->Add(254), c->add_uint_contents(3); };
  const std::vector<IntegerCase> cases = {
      {"BOOL",
       Raw<uint8_t>({1, 0}),
       {1, 0},
       [](auto* c) { c->add_bool_contents(true), c->add_bool_contents(false); }},
      {"INT8", Raw<int8_t>({-2, 3}), {-2, 3}, ints},
      {"INT16", Raw<int16_t>({-2, 3}), {-2, 3}, ints},
      {"INT32", Raw<int32_t>({-2, 3}), {-2, 3}, ints},
      {"INT64",
       Raw<int64_t>({-2, 1LL << 40}),
       {-2, 1LL << 40},
       [](auto* c) { c->add_int64_contents(-2), c->add_int64_contents(1LL << 40); }},
      {"UINT8", Raw<uint8_t>({254, 3}), {254, 3}, uints},
      {"UINT16", Raw<uint16_t>({254, 3}), {254, 3}, uints},
      {"UINT32", Raw<uint32_t>({254, 3}), {254, 3}, uints},
      {"UINT64",
       Raw<uint64_t>({~0ull, 3}),
       {-1, 3},
       [](auto* c) { c->add_uint64_contents(~0ull), c->add_uint64_contents(3); }},
  };
  for (const IntegerCase& test : cases) {
    SCOPED_TRACE(test.datatype);
    inference::ModelInferRequest raw = RequestOf(test.datatype, {2, 1});
    raw.add_raw_input_contents(test.raw);
    const auto from_raw = ReadOne(raw);
    ASSERT_TRUE(from_raw.ok()) << from_raw.status();
    ASSERT_NE(from_raw->integers(), nullptr);
    EXPECT_EQ(*from_raw->integers(), test.values);
    EXPECT_THAT(from_raw->shape, ElementsAre(2, 1));

    inference::ModelInferRequest typed = RequestOf(test.datatype, {2});
    test.fill(typed.mutable_inputs(0)->mutable_contents());
    const auto from_typed = ReadOne(typed);
    ASSERT_TRUE(from_typed.ok()) << from_typed.status();
    ASSERT_NE(from_typed->integers(), nullptr);
    EXPECT_EQ(*from_typed->integers(), test.values);
  }
}

TEST(InferTensorTest, EveryFloatDatatypeIsReadAsDoubles) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"FP16", Raw<uint16_t>({0x3E00, 0xC000})},
      {"BF16", Raw<uint16_t>({0x3FC0, 0xC000})},
      {"FP32", Raw<float>({1.5f, -2.0f})},
      {"FP64", Raw<double>({1.5, -2.0})},
  };
  for (const auto& [datatype, raw] : cases) {
    SCOPED_TRACE(datatype);
    inference::ModelInferRequest request = RequestOf(datatype, {2});
    request.add_raw_input_contents(raw);
    const auto tensor = ReadOne(request);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    ASSERT_NE(tensor->numbers(), nullptr);
    EXPECT_THAT(*tensor->numbers(), ElementsAre(1.5, -2.0));
  }
  inference::ModelInferRequest typed = RequestOf("FP32", {2});
  typed.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1.5f);
  typed.mutable_inputs(0)->mutable_contents()->add_fp32_contents(-2.0f);
  EXPECT_THAT(*ReadOne(typed)->numbers(), ElementsAre(1.5, -2.0));
  typed = RequestOf("FP64", {1});
  typed.mutable_inputs(0)->mutable_contents()->add_fp64_contents(1e300);
  EXPECT_THAT(*ReadOne(typed)->numbers(), ElementsAre(1e300));
}

TEST(InferTensorTest, StringsKeepTheirBytes) {
  inference::ModelInferRequest request = RequestOf("BYTES", {3});
  request.add_raw_input_contents(std::string("\2\0\0\0a\0\0\0\0\0\1\0\0\0\xff", 15));
  const auto tensor = ReadOne(request);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_THAT(*tensor->strings(), ElementsAre(std::string("a\0", 2), "", "\xff"));
  inference::ModelInferRequest typed = RequestOf("BYTES", {1});
  typed.mutable_inputs(0)->mutable_contents()->add_bytes_contents("\xff");
  EXPECT_THAT(*ReadOne(typed)->strings(), ElementsAre("\xff"));
}

TEST(InferTensorTest, NoElementsAreFine) {
  inference::ModelInferRequest request = RequestOf("INT32", {0, 5});
  request.add_raw_input_contents("");
  const auto tensor = ReadOne(request);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->size(), 0u);
}

struct BadCase {
  std::string datatype;
  std::vector<int64_t> shape;
  std::string raw;
  std::string part;
};

TEST(InferTensorTest, RawContentsThatContradictThemselvesAreRefusedByName) {
  const int64_t huge = std::numeric_limits<int64_t>::max();
  const std::vector<BadCase> cases = {
      {"INT32", {2}, "1234", "1 elements of INT32; its shape says 2"},
      {"INT32", {1}, "12345678", "2 elements"},
      {"INT32", {1}, "123", "no whole elements"},
      {"INT64", {1}, "1234", "no whole elements"},
      {"FP16", {1}, "1", "no whole elements"},
      {"INT32", {-1}, "", "dimension -1"},
      {"INT32", {huge, huge}, "", "too many elements"},
      {"BYTES", {1}, "ab", "ends within the length"},
      {"BYTES", {1}, std::string("\5\0\0\0abc", 7), "a string of 5 bytes of which 3"},
      {"BYTES", {1}, std::string("\xff\xff\xff\xff", 4), "4294967295 bytes of which 0"},
      {"BYTES", {2}, std::string("\1\0\0\0a", 5), "1 elements"},
      {"STRING", {1}, "a", "unknown datatype \"STRING\""},
      {"", {1}, "a", "unknown datatype \"\""},
      {"int32", {1}, "1234", "unknown datatype"},
  };
  for (const BadCase& test : cases) {
    inference::ModelInferRequest request = RequestOf(test.datatype, test.shape);
    request.add_raw_input_contents(test.raw);
    const auto tensor = ReadOne(request);
    EXPECT_EQ(tensor.status().code(), absl::StatusCode::kInvalidArgument) << test.part;
    EXPECT_THAT(tensor.status().message(), HasSubstr("input \"x\""));
    EXPECT_THAT(tensor.status().message(), HasSubstr(test.part));
  }
}

TEST(InferTensorTest, ContentsAreOfOneKindOnly) {
  inference::ModelInferRequest request = RequestOf("INT32", {1});
  EXPECT_THAT(ReadOne(request).status().message(), HasSubstr("0 elements"));
  request.mutable_inputs(0)->mutable_contents()->add_int_contents(1);
  EXPECT_TRUE(ReadOne(request).ok());
  request.add_raw_input_contents("1234");
  EXPECT_THAT(ReadOne(request).status().message(), HasSubstr("beside raw_input_contents"));
  request.mutable_inputs(0)->clear_contents();
  request.add_raw_input_contents("1234");
  EXPECT_THAT(ReadOne(request).status().message(), HasSubstr("2 entries for 1 inputs"));
  request = RequestOf("FP16", {1});
  request.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  EXPECT_THAT(ReadOne(request).status().message(), HasSubstr("raw contents only"));
  request = RequestOf("INT32", {1});
  *request.add_inputs() = request.inputs(0);
  for (int i = 0; i < 2; ++i) request.add_raw_input_contents("1234");
  EXPECT_THAT(ReadOne(request).status().message(), HasSubstr("twice"));
}

TEST(InferTensorTest, SharedMemoryIsNotThere) {
  inference::ModelInferRequest request = RequestOf("INT32", {1});
  (*request.mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("r");
  EXPECT_EQ(ReadOne(request).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(InferTensorTest, OutputsAreRaw) {
  inference::ModelInferResponse response;
  AddStrings("s", {2}, {"ab", ""}, &response);
  AddFloats("f", {1, 2}, {1.5f, -2}, &response);
  AddIntegers("i", "INT32", {1}, {7}, &response);
  ASSERT_EQ(response.outputs_size(), 3);
  EXPECT_EQ(response.outputs(0).datatype(), "BYTES");
  EXPECT_EQ(response.raw_output_contents(0), std::string("\2\0\0\0ab\0\0\0\0", 10));
  EXPECT_EQ(response.outputs(1).datatype(), "FP32");
  EXPECT_THAT(response.outputs(1).shape(), ElementsAre(1, 2));
  EXPECT_EQ(response.raw_output_contents(1), Raw<float>({1.5f, -2}));
  EXPECT_EQ(response.raw_output_contents(2), Raw<int32_t>({7}));
}

}  // namespace
}  // namespace penstock::kserve
