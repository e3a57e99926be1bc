#include "tests/checkpoint/files.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"

namespace penstock {
namespace {

constexpr size_t kAlignment = 32;

void Align(std::string& bytes) {
  bytes.resize((bytes.size() + kAlignment - 1) / kAlignment * kAlignment, '\0');
}

}  // namespace

TempFolder::TempFolder() : path_(testing::TempDir() + "/penstock-XXXXXX") {
  if (mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "cannot make " << path_;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempFolder::Write(const std::string& name, const std::string& bytes) const {
  std::string path = path_ + "/" + name;
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  return path;
}

std::string SafetensorsFile(const std::string& header, const std::string& data) {
  return RawOne<uint64_t>(header.size()) + header + data;
}

std::string GgufString(const std::string& text) { return RawOne<uint64_t>(text.size()) + text; }

GgufWriter& GgufWriter::Pair(const std::string& key, uint32_t type, const std::string& bytes) {
  pairs_.push_back(GgufString(key) + RawOne(type) + bytes);
  return *this;
}

GgufWriter& GgufWriter::Text(const std::string& key, const std::string& value) {
  return Pair(key, 8, GgufString(value));
}

GgufWriter& GgufWriter::U32(const std::string& key, uint32_t value) {
  return Pair(key, 4, RawOne(value));
}

GgufWriter& GgufWriter::F32(const std::string& key, float value) {
  return Pair(key, 6, RawOne(value));
}

GgufWriter& GgufWriter::Tensor(const std::string& name, const std::vector<uint64_t>& shape,
                               uint32_t type, const std::string& data) {
  Align(data_);
  tensors_.push_back({name, shape, type, data_.size()});
  data_ += data;
  return *this;
}

GgufWriter& GgufWriter::Model(const std::string& architecture, uint32_t heads, uint32_t kv_heads,
                              uint32_t width) {
  Text("general.architecture", architecture);
  U32(architecture + ".block_count", 1);
  U32(architecture + ".context_length", 128);
  U32(architecture + ".embedding_length", width);
  U32(architecture + ".feed_forward_length", 2 * width);
  U32(architecture + ".attention.head_count", heads);
  U32(architecture + ".attention.head_count_kv", kv_heads);
  F32(architecture + ".attention.layer_norm_rms_epsilon", 1e-5f);
  return Tensor("token_embd.weight", {3, width}, 0, Raw(std::vector<float>(3 * width, 0.5f)));
}

std::string GgufWriter::Bytes() const {
  std::string bytes = "GGUF" + RawOne(version) +
                      RawOne(static_cast<uint64_t>(std::ssize(tensors_) + extra_tensors)) +
                      RawOne(static_cast<uint64_t>(std::ssize(pairs_) + extra_pairs));
  for (const std::string& pair : pairs_) bytes += pair;
  for (const Entry& tensor : tensors_) {
    bytes += GgufString(tensor.name) + RawOne(static_cast<uint32_t>(tensor.shape.size()));
    bytes += Raw(std::vector<uint64_t>(tensor.shape.rbegin(), tensor.shape.rend()));
    const bool first = &tensor == &tensors_.front();
    bytes += RawOne(tensor.type) + RawOne(tensor.offset + (first ? first_offset : 0));
  }
  Align(bytes);
  return bytes + data_;
}

}  // namespace penstock
