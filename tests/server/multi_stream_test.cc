// Several requests on one RPC: order, bounds, failures and clients that take nothing.
#include "server/multi_stream.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/rpc_method.h>

#include <atomic>
#include <map>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/rpc_service.h"
#include "tests/server/bytes.h"
#include "tests/server/open_call.h"
#include "tests/server/serving_fixture.h"

namespace penstock {
namespace {

// Echoes its request when it is told to, or fails with it as the message.
class EchoCall final : public ResponseStream::Reactor {
 public:
  EchoCall(std::unique_ptr<ResponseStream> stream, std::atomic<int>& cancelled)
      : stream_(std::move(stream)), cancelled_(cancelled), message_(stream_->request()) {
    stream_->Begin(*this);
  }
  void Answer() { stream_->WriteAndFinish(message_); }
  void Write() { stream_->Write(message_); }
  void Fail() { stream_->Finish(absl::NotFoundError(TextOf(message_))); }
  void Drop() { stream_->Drop(absl::DeadlineExceededError("takes nothing")); }
  std::string text() const { return TextOf(message_); }
  bool written() const { return written_; }

 private:
  void OnWriteDone(bool ok) override {
    written_ = true;
    if (!ok) stream_->Finish(absl::CancelledError());
  }
  void OnCancel() override { ++cancelled_; }
  void OnDone() override { stream_.reset(); }

  std::unique_ptr<ResponseStream> stream_;
  std::atomic<int>& cancelled_;
  const grpc::ByteBuffer message_;
  std::atomic<bool> written_ = false;
};

// What a test says of a stream, and what it sees of it.
struct Script {
  MultiStreamOptions options;
  bool tells_failures = true;
  bool answers_at_once = false;
  std::string last;  // behind all answers; empty: nothing
  std::atomic<int> accepted = 0, cancelled = 0;
  Mutex mutex;
  std::map<std::string, std::unique_ptr<EchoCall>> calls ABSL_GUARDED_BY(mutex);

  EchoCall& Call(const std::string& text) ABSL_LOCKS_EXCLUDED(mutex) {
    EXPECT_TRUE(Eventually([&] {
      MutexLock lock(&mutex);
      return calls.contains(text);
    }));
    MutexLock lock(&mutex);
    return *calls[text];
  }
};

class EchoProtocol final : public MultiProtocol {
 public:
  explicit EchoProtocol(Script& script) : script_(script) {}
  void Accept(std::unique_ptr<ResponseStream> stream) override {
    auto call = std::make_unique<EchoCall>(std::move(stream), script_.cancelled);
    EchoCall& begun = *call;
    {
      MutexLock lock(&script_.mutex);
      script_.calls[begun.text()] = std::move(call);
    }
    ++script_.accepted;
    if (script_.answers_at_once) begun.Answer();
  }
  std::optional<grpc::ByteBuffer> Failure(const grpc::ByteBuffer& request,
                                          const absl::Status& status) override {
    if (!script_.tells_failures) return std::nullopt;
    return Bytes(absl::StrCat("failed ", TextOf(request), ": ", status.message()));
  }
  std::optional<grpc::ByteBuffer> Last() override {
    if (script_.last.empty()) return std::nullopt;
    return Bytes(script_.last);
  }

 private:
  Script& script_;
};

class EchoService final : public RpcService {
 public:
  EchoService(const Front& front, Script& script) : RpcService("test.Service", front) {
    AddStream("Echo", [this, &script](std::unique_ptr<RpcStream> stream) {
      MultiStream::Start(std::move(stream), std::make_unique<EchoProtocol>(script), script.options,
                         this->front().loop);
    });
  }
};

class MultiStreamTest : public testing::Test {
 protected:
  using Stream = grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

  Serving::Options WithEcho() {
    Serving::Options options;
    options.server.protocols.push_back(
        [this](const Front& front) { return std::make_unique<EchoService>(front, script_); });
    return options;
  }
  void Open(const grpc::ChannelArguments& arguments = {}) {
    serving_.emplace(WithEcho());
    channel_ = grpc::CreateCustomChannel(serving_->address(), grpc::InsecureChannelCredentials(),
                                         arguments);
    client_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    const grpc::internal::RpcMethod method("/test.Service/Echo",
                                           grpc::internal::RpcMethod::BIDI_STREAMING, channel_);
    stream_.reset(
        grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>::Create(
            channel_.get(), method, &client_));
  }
  void Send(const std::string& text) { ASSERT_TRUE(stream_->Write(Bytes(text))); }
  // The next message; "end" when there is none.
  std::string Read() {
    grpc::ByteBuffer message;
    return stream_->Read(&message) ? TextOf(message) : "end";
  }

  Script script_;
  std::optional<Serving> serving_;
  std::shared_ptr<grpc::Channel> channel_;
  grpc::ClientContext client_;
  std::unique_ptr<Stream> stream_;
};

TEST_F(MultiStreamTest, AnswersLeaveWhenTheyAreReady) {
  Open();
  for (const char* text : {"a", "b", "c"}) Send(text);
  script_.Call("b").Answer();
  EXPECT_EQ(Read(), "b");
  script_.Call("c").Answer();
  EXPECT_EQ(Read(), "c");
  stream_->WritesDone();
  script_.Call("a").Answer();
  EXPECT_EQ(Read(), "a");
  EXPECT_EQ(Read(), "end");
  EXPECT_TRUE(stream_->Finish().ok());
}

TEST_F(MultiStreamTest, OrInTheOrderOfTheRequests) {
  script_.options.ordered = true;
  Open();
  for (const char* text : {"a", "b", "c"}) Send(text);
  stream_->WritesDone();
  script_.Call("c").Answer();
  script_.Call("b").Fail();
  script_.Call("a").Answer();
  EXPECT_EQ(Read(), "a");
  EXPECT_EQ(Read(), "failed b: b");
  EXPECT_EQ(Read(), "c");
  EXPECT_EQ(Read(), "end");
  EXPECT_TRUE(stream_->Finish().ok());
}

TEST_F(MultiStreamTest, TheLastMessageIsBehindAllAnswers) {
  script_.last = "sum";
  Open();
  for (const char* text : {"a", "b"}) Send(text);
  stream_->WritesDone();
  script_.Call("b").Answer();
  script_.Call("a").Answer();
  EXPECT_EQ(Read(), "b");
  EXPECT_EQ(Read(), "a");
  EXPECT_EQ(Read(), "sum");
  EXPECT_EQ(Read(), "end");
  EXPECT_TRUE(stream_->Finish().ok());
}

TEST_F(MultiStreamTest, AFailureThatIsNotToldEndsTheStreamAndCancelsTheOthers) {
  script_.tells_failures = false;
  script_.last = "sum";
  Open();
  for (const char* text : {"a", "b"}) Send(text);
  EchoCall& other = script_.Call("a");
  script_.Call("b").Fail();
  EXPECT_TRUE(Eventually([&] { return script_.cancelled == 1; }));
  other.Fail();
  EXPECT_EQ(Read(), "end");
  EXPECT_EQ(stream_->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(MultiStreamTest, NoMoreIsReadThanMayBeInFlight) {
  script_.options.max_in_flight = 2;
  Open();
  for (const char* text : {"a", "b", "c"}) Send(text);
  script_.Call("b");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(script_.accepted, 2);
  script_.Call("a").Answer();
  EXPECT_EQ(Read(), "a");
  script_.Call("c").Answer();
  script_.Call("b").Answer();
  stream_->WritesDone();
  while (Read() != "end") {
  }
  EXPECT_TRUE(stream_->Finish().ok());
}

TEST_F(MultiStreamTest, NorMoreBytes) {
  script_.options.max_bytes = 100;
  Open();
  const std::string large(100, 'x');
  Send(large);
  Send("b");
  EchoCall& first = script_.Call(large);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(script_.accepted, 1);
  first.Answer();
  EXPECT_EQ(Read(), large);
  script_.Call("b").Answer();
  EXPECT_EQ(Read(), "b");
  stream_->WritesDone();
  EXPECT_EQ(Read(), "end");
}

TEST_F(MultiStreamTest, AClientThatTakesNothingIsGivenUp) {
  Open(SmallWindow());
  const std::string large(1 << 20, 'x');
  Send(large);
  Send("b");
  EchoCall& first = script_.Call(large);
  EchoCall& second = script_.Call("b");
  first.Write();   // held back by flow control
  second.Write();  // waits behind it
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(first.written());
  second.Drop();  // of what waits, no more than this is lost
  EXPECT_TRUE(Eventually([&] { return second.written(); }));
  EXPECT_FALSE(first.written());
  first.Drop();
  EXPECT_TRUE(Eventually([&] { return first.written(); }));
  while (Read() != "end") {
  }
  EXPECT_EQ(stream_->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST_F(MultiStreamTest, ACancelledStreamTellsEveryAnswer) {
  Open();
  for (const char* text : {"a", "b"}) Send(text);
  EchoCall& a = script_.Call("a");
  EchoCall& b = script_.Call("b");
  client_.TryCancel();
  EXPECT_TRUE(Eventually([&] { return script_.cancelled == 2; }));
  a.Answer();
  b.Fail();
  EXPECT_EQ(stream_->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(MultiStreamTest, ManyAnswersAtOnceAllArrive) {
  script_.answers_at_once = true;
  Open();
  std::thread writer([&] {
    for (int i = 0; i < 2000; ++i) Send(absl::StrCat(i));
    stream_->WritesDone();
  });
  int count = 0;
  while (Read() != "end") ++count;
  writer.join();
  EXPECT_EQ(count, 2000);
  EXPECT_TRUE(stream_->Finish().ok());
}

}  // namespace
}  // namespace penstock
