#include "tests/server/serving_fixture.h"

#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace penstock {

Serving::Serving(Options options) : executor(options.executor) {
  metrics = *Metrics::Create({.listen = "off", .model = "letters"});
  options.server.listen = "127.0.0.1:0";
  server = *InferenceServer::Start(options.server, *metrics);
  metrics->WatchStages(&executor);
  text_pool = std::make_unique<TaskPool>(2);
  scheduler = std::make_unique<Scheduler>(options.scheduler, executor,
                                          metrics->AddReplica(executor.info().stages));
  context = std::make_unique<ServingContext>(ServingContext{
      {"letters", tokenizer, executor.info(), {ByteTokenizer::kEos}}, scheduler.get(), *text_pool});
  scheduler->Start();
  if (!options.open) return;
  EXPECT_TRUE(Open().ok());
  // The warm-up's answer comes a moment before its sequence is gone.
  EXPECT_TRUE(Eventually([this] { return !scheduler->state().has_work(); }));
}

Serving::~Serving() {
  executor.Release();
  server->RequestStop();
  server->RequestStop();
  if (!drained) server->Drain();
  scheduler->Stop(absl::Now());
  metrics->WatchStages(nullptr);
  context.reset();
  scheduler.reset();
  text_pool.reset();
  server.reset();
}

std::unique_ptr<v1::Generation::Stub> Serving::NewStub(
    const grpc::ChannelArguments& arguments) const {
  return v1::Generation::NewStub(
      grpc::CreateCustomChannel(address(), grpc::InsecureChannelCredentials(), arguments));
}

std::string Serving::Health(const std::string& service) const {
  namespace health = grpc::health::v1;
  const auto stub =
      health::Health::NewStub(grpc::CreateChannel(address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext client;
  client.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  health::HealthCheckRequest request;
  request.set_service(service);
  health::HealthCheckResponse response;
  const grpc::Status status = stub->Check(&client, request, &response);
  if (!status.ok()) return status.error_message();
  return health::HealthCheckResponse::ServingStatus_Name(response.status());
}

double Serving::Metric(const std::string& name_and_labels) const {
  return ValueOf(metrics->Text(), name_and_labels);
}

double ValueOf(const std::string& text, const std::string& name_and_labels) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const size_t blank = line.rfind(' ');
    double value = 0;
    if (blank != absl::string_view::npos && line.substr(0, blank) == name_and_labels &&
        absl::SimpleAtod(line.substr(blank + 1), &value))
      return value;
  }
  return -1;
}

v1::GenerateRequest TextRequest(const std::string& prompt, uint32_t max_tokens) {
  v1::GenerateRequest request;
  request.set_text(prompt);
  request.mutable_sampling()->set_temperature(0);
  if (max_tokens > 0) request.mutable_stopping()->set_max_tokens(max_tokens);
  return request;
}

Answer Generate(v1::Generation::Stub& stub, const v1::GenerateRequest& request,
                absl::Duration timeout) {
  grpc::ClientContext client;
  client.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMicroseconds(timeout));
  const auto reader = stub.Generate(&client, request);
  Answer answer;
  v1::GenerateResponse message;
  while (reader->Read(&message)) {
    answer.texts[message.index()] += message.text();
    std::vector<int32_t>& ids = answer.token_ids[message.index()];
    ids.insert(ids.end(), message.token_ids().begin(), message.token_ids().end());
    if (message.finish_reason() != v1::FINISH_REASON_UNSPECIFIED)
      answer.last[message.index()] = message;
    answer.messages.push_back(message);
  }
  answer.status = reader->Finish();
  return answer;
}

bool Eventually(const std::function<bool()>& condition, absl::Duration limit) {
  const absl::Time deadline = absl::Now() + limit;
  while (!condition()) {
    if (absl::Now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace penstock
