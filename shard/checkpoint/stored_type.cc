#include "shard/checkpoint/stored_type.h"

#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "shard/checkpoint/dequantize.h"

namespace penstock {
namespace {

constexpr StoredType kUnknown{.name = "?"};

// The format's own table (safetensors README and its `Dtype`); what has less than 8 bits is given
// by the smallest whole number of bytes.
constexpr StoredType kSafetensors[] = {
    {"F32", 1, 4, Encoding::kF32},
    {"F16", 1, 2, Encoding::kF16},
    {"BF16", 1, 2, Encoding::kBF16},
    {"BOOL", 1, 1},
    {"U8", 1, 1},
    {"I8", 1, 1},
    {"U16", 1, 2},
    {"I16", 1, 2},
    {"U32", 1, 4},
    {"I32", 1, 4},
    {"U64", 1, 8},
    {"I64", 1, 8},
    {"F64", 1, 8},
    {"C64", 1, 8},
    {"F8_E4M3", 1, 1},
    {"F8_E5M2", 1, 1},
    {"F8_E8M0", 1, 1},
    {"F8_E4M3FNUZ", 1, 1},
    {"F8_E5M2FNUZ", 1, 1},
    {"F6_E2M3", 4, 3},
    {"F6_E3M2", 4, 3},
    {"F4", 2, 1},
};

struct NumberedType {
  uint32_t number;
  StoredType type;
};

constexpr NumberedType kGguf[] = {
    {0, {"F32", 1, 4, Encoding::kF32}},
    {1, {"F16", 1, 2, Encoding::kF16}},
    {30, {"BF16", 1, 2, Encoding::kBF16}},
    {2, {"Q4_0", 32, 18, Encoding::kBlocks, DequantizeQ4_0}},
    {3, {"Q4_1", 32, 20, Encoding::kBlocks, DequantizeQ4_1}},
    {6, {"Q5_0", 32, 22, Encoding::kBlocks, DequantizeQ5_0}},
    {7, {"Q5_1", 32, 24, Encoding::kBlocks, DequantizeQ5_1}},
    {8, {"Q8_0", 32, 34, Encoding::kBlocks, DequantizeQ8_0}},
    {12, {"Q4_K", 256, 144, Encoding::kBlocks, DequantizeQ4_K}},
    {13, {"Q5_K", 256, 176, Encoding::kBlocks, DequantizeQ5_K}},
    {14, {"Q6_K", 256, 210, Encoding::kBlocks, DequantizeQ6_K}},
    {9, {"Q8_1", 32, 0}},  // 36 or 40 bytes, by the version of the writer
    {10, {"Q2_K", 256, 84}},
    {11, {"Q3_K", 256, 110}},
    {15, {"Q8_K", 256, 292}},
    {16, {"IQ2_XXS", 256, 66}},
    {17, {"IQ2_XS", 256, 74}},
    {18, {"IQ3_XXS", 256, 98}},
    {19, {"IQ1_S", 256, 50}},
    {20, {"IQ4_NL", 32, 18}},
    {21, {"IQ3_S", 256, 110}},
    {22, {"IQ2_S", 256, 82}},
    {23, {"IQ4_XS", 256, 136}},
    {24, {"I8", 1, 1}},
    {25, {"I16", 1, 2}},
    {26, {"I32", 1, 4}},
    {27, {"I64", 1, 8}},
    {28, {"F64", 1, 8}},
    {29, {"IQ1_M", 256, 56}},
    {34, {"TQ1_0", 256, 54}},
    {35, {"TQ2_0", 256, 66}},
    {39, {"MXFP4", 32, 17}},
    {40, {"NVFP4", 64, 36}},
    {41, {"Q1_0", 128, 18}},
};

}  // namespace

absl::StatusOr<int64_t> StoredType::Bytes(int64_t elements) const {
  if (elements % block_elements != 0)
    return absl::InvalidArgumentError(absl::StrCat(elements, " elements are no whole number of ",
                                                   name, " blocks of ", block_elements));
  int64_t bytes = 0;
  if (__builtin_mul_overflow(elements / block_elements, int64_t{block_bytes}, &bytes))
    return absl::InvalidArgumentError(
        absl::StrCat(elements, " elements of ", name, " are more bytes than there can be"));
  return bytes;
}

const StoredType& SafetensorsType(absl::string_view dtype) {
  for (const StoredType& type : kSafetensors)
    if (type.name == dtype) return type;
  return kUnknown;
}

const StoredType& GgufType(uint32_t number) {
  for (const NumberedType& entry : kGguf)
    if (entry.number == number) return entry.type;
  return kUnknown;
}

}  // namespace penstock
