#include "server/text/gguf_pre_tokenizers.h"

#include <algorithm>
#include <iterator>

namespace penstock {
namespace {

using nlohmann::json;

constexpr char kLlama3Pattern[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kQwen2Pattern[] = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
                                 R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kTekkenPattern[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kGpt4oPattern[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kDeepSeekNumbers[] = R"(\p{N}{1,3})";
constexpr char kDeepSeekChinese[] = "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+";
constexpr char kDeepSeekRest[] =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

enum class Family {
  kGpt2,
  kDigitsGpt2,
  kLlama3,
  kLlama3Merging,
  kQwen2,
  kTekken,
  kGpt4o,
  kDeepSeek3
};

struct NamedFamily {
  absl::string_view name;
  Family family;
};

// The names that llama.cpp's converter writes. "default" is what files say that were made before
// there were names.
constexpr NamedFamily kFamilies[] = {
    {"default", Family::kGpt2},
    {"gpt-2", Family::kGpt2},
    {"phi-2", Family::kGpt2},
    {"mpt", Family::kGpt2},
    {"olmo", Family::kGpt2},
    {"trillion", Family::kGpt2},
    {"granite-docling", Family::kGpt2},
    {"smollm", Family::kDigitsGpt2},
    {"starcoder", Family::kDigitsGpt2},
    {"refact", Family::kDigitsGpt2},
    {"command-r", Family::kDigitsGpt2},
    {"codeshell", Family::kDigitsGpt2},
    {"exaone", Family::kDigitsGpt2},
    {"minerva-7b", Family::kDigitsGpt2},
    {"llama3", Family::kLlama3},
    {"llama-v3", Family::kLlama3},
    {"llama-bpe", Family::kLlama3},
    {"falcon3", Family::kLlama3},
    {"falcon-h1", Family::kLlama3},
    {"pixtral", Family::kLlama3},
    {"lfm2", Family::kLlama3},
    {"dbrx", Family::kLlama3Merging},
    {"smaug-bpe", Family::kLlama3Merging},
    {"chatglm-bpe", Family::kLlama3Merging},
    {"qwen2", Family::kQwen2},
    {"deepseek-r1-qwen", Family::kQwen2},
    {"stablelm2", Family::kQwen2},
    {"megrez", Family::kQwen2},
    {"hunyuan", Family::kQwen2},
    {"tekken", Family::kTekken},
    {"gpt-4o", Family::kGpt4o},
    {"llama4", Family::kGpt4o},
    {"deepseek-v3", Family::kDeepSeek3},
};

json Split(const char* pattern) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", pattern}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

json ByteLevel(bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

json Sequence(json::array_t steps) { return {{"type", "Sequence"}, {"pretokenizers", steps}}; }

GgufPreTokenizer Describe(Family family) {
  switch (family) {
    case Family::kGpt2: return {ByteLevel(true), nullptr};
    case Family::kDigitsGpt2:
      return {Sequence({{{"type", "Digits"}, {"individual_digits", true}}, ByteLevel(true)}),
              nullptr};
    case Family::kLlama3:
      return {Sequence({Split(kLlama3Pattern), ByteLevel(false)}), nullptr, true, true};
    case Family::kLlama3Merging:
      return {Sequence({Split(kLlama3Pattern), ByteLevel(false)}), nullptr};
    case Family::kQwen2:
      return {Sequence({Split(kQwen2Pattern), ByteLevel(false)}), {{"type", "NFC"}}};
    case Family::kTekken:
      return {Sequence({Split(kTekkenPattern), ByteLevel(false)}), nullptr, true, true};
    case Family::kGpt4o: return {Sequence({Split(kGpt4oPattern), ByteLevel(false)}), nullptr};
    case Family::kDeepSeek3:
      return {Sequence({Split(kDeepSeekNumbers), Split(kDeepSeekChinese), Split(kDeepSeekRest),
                        ByteLevel(false)}),
              nullptr};
  }
  return {};
}

}  // namespace

bool FindGgufPreTokenizer(absl::string_view name, GgufPreTokenizer* found) {
  const auto it = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                               [name](const NamedFamily& entry) { return entry.name == name; });
  if (it == std::end(kFamilies)) return false;
  *found = Describe(it->family);
  return true;
}

}  // namespace penstock
