#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/front.h"
#include "server/response_stream.h"
#include "server/served_model.h"

namespace penstock {

// What answers a call that needs the model's files and no executor, with one message or several.
// Thread-safe. Errors as those of an EncodeMethod.
using TextFunction = std::function<absl::StatusOr<std::vector<grpc::ByteBuffer>>(
    const grpc::ByteBuffer& request, const ServedModel& model)>;

// Answers one call by `function`, on the text pool, and counts it under `method`, which outlives
// the call. A client that does not take a message within CallBounds::client_stall is given up. On
// the front's loop; never blocks.
void StartText(const Front& front, absl::string_view method, TextFunction function,
               std::unique_ptr<ResponseStream> stream);

}  // namespace penstock
