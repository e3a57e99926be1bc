#pragma once

#include <memory>

#include "server/encode_method.h"
#include "server/front.h"
#include "server/generate_method.h"
#include "server/response_stream.h"

namespace penstock {

// How a call reaches its model: the gate lets it in or not, and the model must be of the kind that
// it needs. A call that is not let in is answered and counted. On the front's loop; never block.
void StartGenerate(const Front& front, std::unique_ptr<GenerateMethod> method,
                   std::unique_ptr<ResponseStream> stream);
void StartEncode(const Front& front, std::unique_ptr<EncodeMethod> method,
                 std::unique_ptr<ResponseStream> stream);
// Whether a call would be let in and some replica could serve it. Any thread.
bool CanServe(const Front& front);
// Ends a call that was not let in.
void RefuseCall(const Front& front, absl::string_view method, const absl::Status& why,
                std::unique_ptr<ResponseStream> stream);

}  // namespace penstock
