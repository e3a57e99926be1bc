#include "cli/bench/metrics_scraper.h"

#include <curl/curl.h>

#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

namespace penstock {
namespace {

constexpr std::chrono::seconds kPeriod{1};
constexpr size_t kMostBytes = 16 << 20;

size_t Append(char* data, size_t size, size_t count, void* body) {
  std::string* text = static_cast<std::string*>(body);
  if (text->size() + size * count > kMostBytes) return 0;  // ends the transfer
  text->append(data, size * count);
  return size * count;
}

}  // namespace

absl::StatusOr<std::string> FetchUrl(const std::string& url, absl::Duration timeout) {
  const std::unique_ptr<CURL, void (*)(CURL*)> handle(curl_easy_init(), curl_easy_cleanup);
  if (handle == nullptr) return absl::InternalError("curl cannot be set up");
  std::string body;
  curl_easy_setopt(handle.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(handle.get(), CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle.get(), CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(handle.get(), CURLOPT_TIMEOUT_MS, long{absl::ToInt64Milliseconds(timeout)});
  curl_easy_setopt(handle.get(), CURLOPT_WRITEFUNCTION, Append);
  curl_easy_setopt(handle.get(), CURLOPT_WRITEDATA, &body);
  const CURLcode code = curl_easy_perform(handle.get());
  if (code != CURLE_OK)
    return absl::UnavailableError(absl::StrCat(url, ": ", curl_easy_strerror(code)));
  return body;
}

MetricsScraper::MetricsScraper(std::string url, const RunClock& clock)
    : url_(std::move(url)), clock_(clock), thread_([this] { Loop(); }) {}

std::vector<MetricsSample> MetricsScraper::Stop() {
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
  }
  if (thread_.joinable()) thread_.join();
  return samples_;
}

void MetricsScraper::Loop() {
  bool over = false;
  while (!over) {
    Read();
    MutexLock lock(&mutex_);
    const auto stopped = [this] {
      mutex_.AssertHeld();
      return stopped_;
    };
    over = mutex_.AwaitFor(stopped, kPeriod);
  }
  Read();
}

void MetricsScraper::Read() {
  const absl::StatusOr<std::string> text = FetchUrl(url_, absl::Seconds(2));
  if (text.ok()) samples_.push_back(MakeMetricsSample(clock_.Now(), ParseMetricsText(*text)));
}

}  // namespace penstock
