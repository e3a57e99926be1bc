#include "shard/remote/protocol.h"

#include "absl/strings/str_cat.h"

namespace penstock {

v1::Hello OwnHello(const std::string& build) {
  v1::Hello hello;
  hello.set_protocol(kShardProtocol);
  hello.set_build(build);
  return hello;
}

absl::Status CheckHello(const v1::Hello& other, const std::string& build) {
  if (other.protocol() != kShardProtocol)
    return absl::FailedPreconditionError(absl::StrCat(
        "the other side speaks protocol ", other.protocol(), ", this one ", kShardProtocol));
  if (other.build() != build)
    return absl::FailedPreconditionError(
        absl::StrCat("the other side is build ", other.build(), ", this one ", build));
  return absl::OkStatus();
}

}  // namespace penstock
