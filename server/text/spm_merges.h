#pragma once

#include <string>
#include <utility>
#include <vector>

namespace penstock {

// The merges that a SentencePiece vocabulary with scores implies: every way to put a token together
// from two others, best score first (of equals, the longer left part, then the longer right part).
std::vector<std::pair<std::string, std::string>> MergesFromScores(
    const std::vector<std::string>& tokens, const std::vector<float>& scores);

}  // namespace penstock
