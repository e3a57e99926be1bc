#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace penstock {

// The arrays of a safetensors file that a script of tests/golden wrote; throws when it is not one.
class GoldenFile {
 public:
  explicit GoldenFile(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(stream), {});
    if (bytes_.size() < sizeof(uint64_t)) throw std::runtime_error("cannot read " + path);
    uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), sizeof(length));
    data_ = sizeof(length) + length;
    header_ = nlohmann::json::parse(bytes_.substr(sizeof(length), length));
  }

  template <typename T>
  std::vector<T> Read(const std::string& name) const {
    const nlohmann::json& offsets = header_.at(name).at("data_offsets");
    const size_t begin = offsets.at(0), end = offsets.at(1);
    std::vector<T> out((end - begin) / sizeof(T));
    std::memcpy(out.data(), bytes_.data() + data_ + begin, end - begin);
    return out;
  }

 private:
  std::string bytes_;
  size_t data_ = 0;  // where the arrays begin
  nlohmann::json header_;
};

}  // namespace penstock
