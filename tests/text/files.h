#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "server/text/tokenizer.h"

namespace penstock {

// A file of tests/data/tokenizers; fails the test and gives nothing when it is not there.
std::string ReadTokenizerFile(const std::string& name);
nlohmann::json ReadTokenizerJson(const std::string& name);

// tests/data/tokenizers/NAME.json, loaded.
std::unique_ptr<Tokenizer> LoadTokenizer(const std::string& name);

// The committed tokenizers that have a NAME.cases.json.
std::vector<std::string> TokenizerNames();

// A byte-level tokenizer whose only tokens are the 256 bytes, id = byte, and then `specials`.
std::unique_ptr<Tokenizer> ByteTokenizer(const std::vector<std::string>& specials);

}  // namespace penstock
