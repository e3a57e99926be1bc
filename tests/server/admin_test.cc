#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/penstock/v1/admin.grpc.pb.h"
#include "tests/server/serving_fixture.h"

namespace penstock {
namespace {

std::unique_ptr<v1::Admin::Stub> NewAdmin(const Serving& serving) {
  return v1::Admin::NewStub(
      grpc::CreateChannel(serving.address(), grpc::InsecureChannelCredentials()));
}

v1::StatusResponse AskStatus(const Serving& serving) {
  grpc::ClientContext client;
  client.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  v1::StatusResponse response;
  const grpc::Status status = NewAdmin(serving)->Status(&client, {}, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

struct Recording {
  grpc::Status status;
  std::vector<v1::TraceChunk> chunks;
  absl::Duration took;

  int Count(int (v1::TraceChunk::*size)() const) const {
    int count = 0;
    for (const v1::TraceChunk& chunk : chunks) count += (chunk.*size)();
    return count;
  }
};

Recording Record(const Serving& serving, double seconds) {
  grpc::ClientContext client;
  client.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
  v1::TraceRequest request;
  request.set_seconds(seconds);
  const absl::Time begin = absl::Now();
  const auto stub = NewAdmin(serving);
  const auto reader = stub->Trace(&client, request);
  Recording recording;
  v1::TraceChunk chunk;
  while (reader->Read(&chunk)) recording.chunks.push_back(chunk);
  recording.status = reader->Finish();
  recording.took = absl::Now() - begin;
  return recording;
}

Serving::Options Shut() {
  Serving::Options options;
  options.open = false;
  return options;
}

TEST(AdminTest, StatusTellsTheServersLife) {
  Serving serving(Shut());
  EXPECT_EQ(AskStatus(serving).state(), v1::SERVER_STATE_STARTING);
  ASSERT_TRUE(serving.Open().ok());
  v1::StatusResponse status = AskStatus(serving);
  EXPECT_EQ(status.state(), v1::SERVER_STATE_SERVING);
  EXPECT_EQ(status.version(), PENSTOCK_VERSION);
  EXPECT_GT(status.uptime_seconds(), 0);
  ASSERT_EQ(status.replicas_size(), 1);
  EXPECT_EQ(status.replicas(0).replica(), 0u) << "as in the metrics";
  EXPECT_TRUE(status.replicas(0).healthy());
  EXPECT_EQ(status.replicas(0).gauges().kv_blocks_total(), 64u);
  EXPECT_EQ(status.replicas(0).pipeline().elapsed_seconds(), 10);
  EXPECT_EQ(status.replicas(0).pipeline().stages(0).busy_seconds(), 4);
  EXPECT_EQ(status.replicas(0).pipeline().stages(0).bubble_seconds(), 2);
  EXPECT_EQ(status.replicas(0).pipeline().stages(0).idle_seconds(), 4);

  serving.executor.Hold();
  const auto stub = serving.NewStub();
  std::thread client([&] { Generate(*stub, TextRequest("a", 5)); });
  EXPECT_TRUE(Eventually([&] { return AskStatus(serving).replicas(0).gauges().running() == 1; }));
  EXPECT_EQ(AskStatus(serving).calls(), 1u);
  std::thread drain([&] { serving.server->Drain(); });
  EXPECT_TRUE(Eventually([&] { return AskStatus(serving).state() == v1::SERVER_STATE_DRAINING; }));
  serving.executor.Release();
  client.join();
  drain.join();
  serving.drained = true;
}

TEST(AdminTest, TraceRecordsEveryStepWithItsSequences) {
  Serving serving;
  serving.executor.set_step_delay(absl::Milliseconds(2));
  Recording recording;
  std::thread tracer([&] { recording = Record(serving, 1.5); });
  ASSERT_TRUE(Eventually([&] { return serving.metrics->traces().tracing(); }));
  const auto stub = serving.NewStub();
  ASSERT_TRUE(Generate(*stub, TextRequest("a", 20)).status.ok());
  tracer.join();
  ASSERT_TRUE(recording.status.ok()) << recording.status.error_message();
  EXPECT_TRUE(recording.chunks.front().has_begin());
  EXPECT_TRUE(recording.chunks.back().has_end());
  EXPECT_GE(recording.chunks.back().end().at(), 1500000000);
  EXPECT_EQ(recording.Count(&v1::TraceChunk::steps_size), 20);
  EXPECT_GE(recording.Count(&v1::TraceChunk::states_size), 2);
  int64_t prompt = 0, last = -1;
  for (const v1::TraceChunk& chunk : recording.chunks) {
    EXPECT_EQ(chunk.lost_steps(), 0u);
    for (const v1::TraceStep& step : chunk.steps()) {
      EXPECT_GT(step.step(), last);
      last = step.step();
      EXPECT_GE(step.launched(), 0);
      EXPECT_GT(step.committed(), step.launched());
      ASSERT_EQ(step.sequences_size(), 1);
      prompt += step.prefill_tokens();
    }
  }
  EXPECT_EQ(prompt, 2);  // with the one that begins every text
  EXPECT_FALSE(serving.metrics->traces().tracing());
  EXPECT_TRUE(Eventually([&] {
    return serving.Metric(
               "penstock_requests_total{code=\"OK\",method=\"Trace\",model=\"letters\"}") == 1;
  }));
}

TEST(AdminTest, TraceOfAnIdleServerEndsInTimeAndIsEmpty) {
  Serving serving;
  const Recording recording = Record(serving, 0.3);
  ASSERT_TRUE(recording.status.ok()) << recording.status.error_message();
  EXPECT_GE(recording.took, absl::Milliseconds(300));
  EXPECT_LT(recording.took, absl::Seconds(5));
  EXPECT_EQ(recording.Count(&v1::TraceChunk::steps_size), 0);
  ASSERT_TRUE(recording.chunks.back().has_end());
  EXPECT_EQ(recording.chunks.back().end().replicas_size(), 1);
}

TEST(AdminTest, TraceSecondsHaveARange) {
  Serving serving;
  for (const double seconds :
       {0.0, 0.09, -1.0, 300.1, std::nan(""), std::numeric_limits<double>::infinity()}) {
    const grpc::Status status = Record(serving, seconds).status;
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << seconds;
    EXPECT_NE(status.error_message().find("[0.1, 300]"), std::string::npos)
        << status.error_message();
  }
}

TEST(AdminTest, ATracerThatLeavesIsForgotten) {
  Serving serving;
  v1::TraceRequest request;
  request.set_seconds(200);
  const auto stub = NewAdmin(serving);
  {
    grpc::ClientContext client;
    const auto reader = stub->Trace(&client, request);
    v1::TraceChunk chunk;
    ASSERT_TRUE(reader->Read(&chunk));
    EXPECT_EQ(serving.metrics->traces().tracers(), 1);
    EXPECT_EQ(AskStatus(serving).tracers(), 1u);
    client.TryCancel();
    while (reader->Read(&chunk)) {
    }
    EXPECT_FALSE(reader->Finish().ok());
  }
  EXPECT_TRUE(Eventually([&] { return serving.metrics->traces().tracers() == 0; }));
  EXPECT_TRUE(Generate(*serving.NewStub(), TextRequest("a", 5)).status.ok());
}

TEST(AdminTest, ATracerThatDoesNotReadHoldsNobodyUp) {
  Serving serving;
  v1::TraceRequest request;
  request.set_seconds(200);
  const auto stub = NewAdmin(serving);
  grpc::ClientContext client;
  const auto reader = stub->Trace(&client, request);
  ASSERT_TRUE(Eventually([&] { return serving.metrics->traces().tracing(); }));
  const auto generation = serving.NewStub();
  for (int i = 0; i < 20; ++i)
    ASSERT_TRUE(Generate(*generation, TextRequest("a", 100)).status.ok());
  EXPECT_EQ(Record(serving, 0.2).chunks.empty(), false);  // another one works beside it
  client.TryCancel();
}

TEST(AdminTest, TooManyTracersAreRefused) {
  Serving serving;
  v1::TraceRequest request;
  request.set_seconds(200);
  const auto stub = NewAdmin(serving);
  std::vector<std::unique_ptr<grpc::ClientContext>> clients;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::TraceChunk>>> readers;
  for (int i = 0; i < TraceOptions().max_tracers; ++i) {
    clients.push_back(std::make_unique<grpc::ClientContext>());
    readers.push_back(stub->Trace(clients.back().get(), request));
  }
  ASSERT_TRUE(Eventually(
      [&] { return serving.metrics->traces().tracers() == TraceOptions().max_tracers; }));
  EXPECT_EQ(Record(serving, 0.2).status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  for (const auto& client : clients) client->TryCancel();
}

TEST(AdminTest, ADrainEndsATrace) {
  Serving serving;
  Recording recording;
  std::thread tracer([&] { recording = Record(serving, 25); });
  ASSERT_TRUE(Eventually([&] { return serving.metrics->traces().tracing(); }));
  EXPECT_TRUE(serving.server->Drain());  // it does not wait for a tracer
  serving.drained = true;
  tracer.join();
  EXPECT_FALSE(recording.status.ok());
  EXPECT_LT(recording.took, absl::Seconds(20));
}

}  // namespace
}  // namespace penstock
