#include "cli/bench/progress_line.h"

namespace penstock {

void ProgressLine::Show(const LoadProgress& progress) {
  if (progress.elapsed < last_.elapsed) last_ = {};  // another run
  const double seconds = absl::ToDoubleSeconds(progress.elapsed - last_.elapsed);
  const auto rate = [seconds](int64_t now, int64_t before) {
    return seconds > 0 ? static_cast<double>(now - before) / seconds : 0.0;
  };
  std::fprintf(out_,
               "%s%5.0f s  running %lld  done %lld  failed %lld  %.1f requests/s  %.0f tokens/s%s",
               terminal_ ? "\r\033[K" : "", absl::ToDoubleSeconds(progress.elapsed),
               static_cast<long long>(progress.running), static_cast<long long>(progress.succeeded),
               static_cast<long long>(progress.failed), rate(progress.succeeded, last_.succeeded),
               rate(progress.output_tokens, last_.output_tokens), terminal_ ? "" : "\n");
  std::fflush(out_);
  shown_ = true;
  last_ = progress;
}

void ProgressLine::Clear() {
  if (terminal_ && shown_) std::fputs("\r\033[K", out_);
  std::fflush(out_);
  shown_ = false;
}

}  // namespace penstock
