#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace penstock {

class Checkpoint;

struct EncodeOptions {
  bool add_special_tokens = true;    // the post-processor's BOS/EOS
  bool parse_special_tokens = true;  // text that spells a special token becomes that token
};

// A one-shot model's input.
struct Encoding {
  std::vector<int32_t> ids;
  std::vector<int32_t> types;  // segment of each, as the post-processor says (0 without one)
};

// Text to tokens and back. Immutable, safe to share. Takes any bytes and never throws: every
// maximal ill-formed UTF-8 subpart of the input reads as U+FFFD, as in Python's decode("utf-8",
// "replace").
class Tokenizer {
 public:
  // From tokenizer.json beside a Hugging Face checkpoint (or BERT's vocab.txt and
  // tokenizer_config.json where there is none), or from GGUF metadata. Errors name the file.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Load(const Checkpoint& checkpoint);
  // From the text of a tokenizer.json.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> FromJson(absl::string_view json);
  virtual ~Tokenizer() = default;

  virtual std::vector<int32_t> Encode(absl::string_view text,
                                      const EncodeOptions& options) const = 0;
  // A text, or a text and its pair (query and document), with the special tokens and the types of
  // the post-processor's template for one or two. Beyond `max_tokens` (0: no limit) the longer of
  // the two loses tokens at its end, then both ("longest_first" of the reference; special tokens
  // are never cut, so there are more than `max_tokens` when those alone are). Spelled special
  // tokens are read as such, as the reference does; a file's own truncation and padding don't
  // count.
  virtual Encoding EncodeInput(absl::string_view text, std::optional<absl::string_view> pair,
                               size_t max_tokens) const = 0;
  // The bytes of a whole sequence: equal to the concatenation of what Bytes gives, the first token
  // being the first that is not skipped.
  virtual std::string Decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const = 0;
  // The bytes one token stands for, possibly part of a character. `first`: it opens the text (some
  // decoders strip a leading space there). Empty for ids the vocabulary lacks.
  virtual std::string Bytes(int32_t id, bool first) const = 0;
  virtual bool IsSpecial(int32_t id) const = 0;
  virtual int32_t vocab_size() const = 0;  // largest id + 1, added tokens included
};

}  // namespace penstock
