#include "server/text/model_json.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/text/bpe_model.h"
#include "server/text/json_fields.h"
#include "server/text/unigram_model.h"
#include "server/text/wordpiece_model.h"
#include "shard/base/status_macros.h"

namespace penstock {
namespace {

using nlohmann::json;
using ModelOr = absl::StatusOr<std::unique_ptr<SubwordModel>>;

absl::Status CheckOptions(const json& model) {
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    ASSIGN_OR_RETURN(const std::string value, StringField(model, key, ""));
    if (!value.empty()) return FieldError(model, key, "is not supported");
  }
  const json* dropout = FindField(model, "dropout");
  if (dropout != nullptr && *dropout != 0.0) {
    return FieldError(model, "dropout", "is not supported: encoding would be random");
  }
  return absl::OkStatus();
}

// {"token": id}
absl::StatusOr<std::vector<Vocabulary::Entry>> ParseVocab(const json& model) {
  ASSIGN_OR_RETURN(const json* vocab, ObjectField(model, "vocab"));
  std::vector<Vocabulary::Entry> entries;
  entries.reserve(vocab->size());
  for (const auto& [token, id] : vocab->items()) {
    const auto value = id.is_number_integer() ? id.get<int64_t>() : -1;
    if (value < 0 || value > kMaxTokenId) {
      return FieldError(model, "vocab", absl::StrCat("has no valid id for '", token, "'"));
    }
    entries.emplace_back(token, static_cast<int32_t>(value));
  }
  return entries;
}

// "a b" or ["a", "b"]
absl::Status ParseMerges(const json& model, BpeSpec* spec) {
  ASSIGN_OR_RETURN(const json* merges, ArrayField(model, "merges"));
  spec->merges.reserve(merges->size());
  for (const json& merge : *merges) {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      spec->merges.emplace_back(merge[0].get_ref<const std::string&>(),
                                merge[1].get_ref<const std::string&>());
      continue;
    }
    const size_t index = spec->merges.size();
    if (!merge.is_string()) {
      return FieldError(model, "merges", absl::StrCat("has no pair of tokens at ", index));
    }
    const auto& text = merge.get_ref<const std::string&>();
    if (index == 0 && text.rfind("#version", 0) == 0) continue;
    const size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      return FieldError(model, "merges", absl::StrCat("has no pair of tokens at ", index));
    }
    spec->merges.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return absl::OkStatus();
}

ModelOr ParseBpe(const json& model, bool byte_level) {
  RETURN_IF_ERROR(CheckOptions(model));
  BpeSpec spec;
  spec.byte_level = byte_level;
  ASSIGN_OR_RETURN(spec.unk_token, StringField(model, "unk_token", ""));
  ASSIGN_OR_RETURN(spec.fuse_unk, BoolField(model, "fuse_unk", false));
  ASSIGN_OR_RETURN(spec.byte_fallback, BoolField(model, "byte_fallback", false));
  ASSIGN_OR_RETURN(spec.ignore_merges, BoolField(model, "ignore_merges", false));
  ASSIGN_OR_RETURN(spec.vocab, ParseVocab(model));
  RETURN_IF_ERROR(ParseMerges(model, &spec));
  return BpeModel::Build(std::move(spec));
}

ModelOr ParseWordPiece(const json& model) {
  WordPieceSpec spec;
  ASSIGN_OR_RETURN(spec.unk_token, StringField(model, "unk_token", spec.unk_token));
  ASSIGN_OR_RETURN(spec.continuing_prefix,
                   StringField(model, "continuing_subword_prefix", spec.continuing_prefix));
  ASSIGN_OR_RETURN(spec.max_word_chars,
                   IdField(model, "max_input_chars_per_word", spec.max_word_chars));
  ASSIGN_OR_RETURN(spec.vocab, ParseVocab(model));
  return WordPieceModel::Build(std::move(spec));
}

// A number as the reference's JSON reader (serde_json) understands its shortest spelling: digits
// and power of ten are rounded one after the other, which may miss the number by its last bit. That
// decides between ways to cut a word whose scores are equal but for rounding.
double AsReferenceReads(double number) {
  char text[32];
  const auto end = std::to_chars(std::begin(text), std::end(text) - 1, std::abs(number),
                                 std::chars_format::scientific);
  *end.ptr = '\0';
  uint64_t digits = 0;
  int exponent = 0;
  for (const char* at = text; at != end.ptr; ++at) {
    if (*at == 'e') {
      exponent += std::atoi(at + 1);
      break;
    }
    if (*at == '.') continue;
    digits = digits * 10 + static_cast<uint64_t>(*at - '0');
    if (at != text) --exponent;
  }
  auto value = static_cast<double>(digits);
  for (; exponent < -308; exponent += 308) value /= 1e308;
  const double power = std::strtod(absl::StrCat("1e", std::abs(exponent)).c_str(), nullptr);
  value = exponent < 0 ? value / power : value * power;
  return std::copysign(value, number);
}

ModelOr ParseUnigram(const json& model) {
  UnigramSpec spec;
  ASSIGN_OR_RETURN(spec.unk_id, IdField(model, "unk_id"));
  ASSIGN_OR_RETURN(spec.byte_fallback, BoolField(model, "byte_fallback", false));
  ASSIGN_OR_RETURN(const json* vocab, ArrayField(model, "vocab"));
  if (vocab->size() > static_cast<size_t>(kMaxTokenId) + 1) {
    return FieldError(model, "vocab", absl::StrCat("has more than ", kMaxTokenId + 1, " tokens"));
  }
  spec.vocab.reserve(vocab->size());
  for (const json& entry : *vocab) {
    const bool is_pair = entry.is_array() && entry.size() == 2 && entry[0].is_string() &&
                         entry[1].is_number() && std::isfinite(entry[1].get<double>());
    if (!is_pair) {
      return FieldError(model, "vocab",
                        absl::StrCat("has no token and score at ", spec.vocab.size()));
    }
    spec.vocab.emplace_back(entry[0].get_ref<const std::string&>(),
                            AsReferenceReads(entry[1].get<double>()));
  }
  return UnigramModel::Build(std::move(spec));
}

}  // namespace

absl::StatusOr<std::string> ModelType(const json& model) {
  if (FindField(model, "type") != nullptr) return StringField(model, "type");
  if (FindField(model, "merges") != nullptr) return "BPE";
  const json* vocab = FindField(model, "vocab");
  if (vocab != nullptr && vocab->is_array()) return "Unigram";
  return FindField(model, "max_input_chars_per_word") != nullptr ? "WordPiece" : "BPE";
}

absl::StatusOr<std::unique_ptr<SubwordModel>> ModelFromJson(const json& model, bool byte_level) {
  ASSIGN_OR_RETURN(const std::string type, ModelType(model));
  if (type == "BPE") return ParseBpe(model, byte_level);
  if (type == "WordPiece") return ParseWordPiece(model);
  if (type == "Unigram") return ParseUnigram(model);
  return absl::UnimplementedError(absl::StrCat(
      "tokenizer model type '", type, "' is not supported; BPE, WordPiece and Unigram are"));
}

}  // namespace penstock
