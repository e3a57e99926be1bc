#pragma once

#include <memory>

#include "server/encode_method.h"

namespace penstock::tei {

// The one-shot RPCs of tei.v1. Embed needs a model of the kind "embed", the others one of the kind
// "classify", Rerank with one label.
std::unique_ptr<EncodeMethod> MakeEmbed();
std::unique_ptr<EncodeMethod> MakePredict();
std::unique_ptr<EncodeMethod> MakeRerank();

}  // namespace penstock::tei
