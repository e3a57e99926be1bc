#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace penstock {

// A new folder under the test's temporary folder; removed with what is in it.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string Write(const std::string& name, const std::string& bytes) const;  // returns its path

 private:
  std::string path_;
};

// The bytes of numbers, as they lie in memory.
template <typename T>
std::string Raw(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}
template <typename T>
std::string RawOne(T value) {
  return Raw(std::vector<T>{value});
}

// A safetensors file of a header and data that need not fit each other.
std::string SafetensorsFile(const std::string& header, const std::string& data);

// Writes a GGUF file (version 3), honestly unless its fields are changed.
class GgufWriter {
 public:
  GgufWriter& Text(const std::string& key, const std::string& value);
  GgufWriter& U32(const std::string& key, uint32_t value);
  GgufWriter& F32(const std::string& key, float value);
  GgufWriter& Pair(const std::string& key, uint32_t type, const std::string& bytes);
  // `shape` outermost first, as the reader gives it back. Data is aligned.
  GgufWriter& Tensor(const std::string& name, const std::vector<uint64_t>& shape, uint32_t type,
                     const std::string& data);
  // The keys and the embedding without which a llama, qwen2, qwen3 is refused.
  GgufWriter& Model(const std::string& architecture, uint32_t heads, uint32_t kv_heads,
                    uint32_t width);
  std::string Bytes() const;

  uint32_t version = 3;
  int64_t extra_tensors = 0, extra_pairs = 0;  // that the header claims
  uint64_t first_offset = 0;                   // where the first tensor's data is said to be

 private:
  struct Entry {
    std::string name;
    std::vector<uint64_t> shape;
    uint32_t type;
    uint64_t offset;
  };
  std::vector<std::string> pairs_;
  std::vector<Entry> tensors_;
  std::string data_;
};

std::string GgufString(const std::string& text);

}  // namespace penstock
