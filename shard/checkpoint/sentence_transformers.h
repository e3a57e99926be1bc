#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace penstock {

// The key under which a folder's config() holds what AddSentenceTransformers() found.
inline constexpr char kSentenceTransformersKey[] = "sentence_transformers_modules";

// What stands beside a checkpoint in a folder of sentence-transformers (Reimers and Gurevych 2019)
// and says how rows become an embedding, put into `config` as one object of its own:
//   {"pooling": <the pooling module's config.json>, "normalize": bool, "max_seq_length": int}
// where the first and the last are there only if their files say so. Without modules.json nothing
// changes. InvalidArgument, naming the file, for one that is broken and for a module that is not
// Transformer (in the folder itself), Pooling or Normalize.
absl::Status AddSentenceTransformers(const std::string& folder, nlohmann::json* config);

}  // namespace penstock
