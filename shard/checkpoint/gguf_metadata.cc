#include "shard/checkpoint/gguf_metadata.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

using nlohmann::json;

constexpr int64_t kMaxValues = 16'000'000;  // some 60 times the largest vocabulary
constexpr int kMaxDepth = 8;
constexpr uint64_t kMaxKeyBytes = 65535;  // the format's own limit
constexpr uint64_t kMaxTextBytes = 1 << 30;

// Value types by the format's numbers.
enum Type : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

// The fewest bytes that a value of the type takes.
int64_t LeastBytes(uint32_t type) {
  switch (type) {
    case kU16:
    case kI16: return 2;
    case kU32:
    case kI32:
    case kF32: return 4;
    case kString:
    case kU64:
    case kI64:
    case kF64: return 8;
    case kArray: return 12;
    default: return 1;
  }
}

class ValueReader {
 public:
  explicit ValueReader(ByteCursor& cursor) : cursor_(cursor) {}

  absl::StatusOr<json> Value(uint32_t type, int depth) {
    if (++values_ > kMaxValues)
      return absl::ResourceExhaustedError(absl::StrCat("more than ", kMaxValues, " values"));
    switch (type) {
      case kU8: return Number<uint8_t>();
      case kI8: return Number<int8_t>();
      case kU16: return Number<uint16_t>();
      case kI16: return Number<int16_t>();
      case kU32: return Number<uint32_t>();
      case kI32: return Number<int32_t>();
      case kF32: return Number<float>();
      case kU64: return Number<uint64_t>();
      case kI64: return Number<int64_t>();
      case kF64: return Number<double>();
      case kBool: return Bool();
      case kString: return Text();
      case kArray: return Array(depth + 1);
      default:
        return absl::InvalidArgumentError(absl::StrCat("the value type ", type, " is not known"));
    }
  }

 private:
  template <typename T>
  absl::StatusOr<json> Number() {
    ASSIGN_OR_RETURN(const T value, cursor_.Number<T>());
    return json(value);
  }

  absl::StatusOr<json> Bool() {
    ASSIGN_OR_RETURN(const uint8_t value, cursor_.Number<uint8_t>());
    return json(value != 0);
  }

  absl::StatusOr<json> Text() {
    ASSIGN_OR_RETURN(std::string text, cursor_.String(kMaxTextBytes));
    return json(std::move(text));
  }

  absl::StatusOr<json> Array(int depth) {
    if (depth > kMaxDepth)
      return absl::InvalidArgumentError(absl::StrCat("arrays nest deeper than ", kMaxDepth));
    ASSIGN_OR_RETURN(const uint32_t type, cursor_.Number<uint32_t>());
    ASSIGN_OR_RETURN(const int64_t count, cursor_.Count(LeastBytes(type)));
    json array = json::array();
    for (int64_t i = 0; i < count; ++i) {
      ASSIGN_OR_RETURN(json value, Value(type, depth));
      array.push_back(std::move(value));
    }
    return array;
  }

  ByteCursor& cursor_;
  int64_t values_ = 0;
};

absl::Status About(const std::string& key, const absl::Status& problem) {
  return absl::Status(problem.code(), absl::StrCat("key ", key, ": ", problem.message()));
}

}  // namespace

absl::StatusOr<json> ReadGgufMetadata(ByteCursor& cursor, int64_t count) {
  json metadata = json::object();
  ValueReader reader(cursor);
  for (int64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const std::string key, cursor.String(kMaxKeyBytes));
    if (metadata.contains(key)) return About(key, absl::InvalidArgumentError("occurs twice"));
    const absl::StatusOr<uint32_t> type = cursor.Number<uint32_t>();
    if (!type.ok()) return About(key, type.status());
    absl::StatusOr<json> value = reader.Value(*type, 0);
    if (!value.ok()) return About(key, value.status());
    metadata[key] = *std::move(value);
  }
  return metadata;
}

}  // namespace penstock
