// RPCs on a call loop: every kind of RPC as a stream both ways, and their ends.
#include "server/rpc_stream.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "server/rpc_service.h"
#include "tests/server/bytes.h"

namespace penstock {
namespace {

// Answers nothing until told to.
class PatientCall final : public ResponseStream::Reactor {
 public:
  void Begin(std::unique_ptr<ResponseStream> stream) {
    stream_ = std::move(stream);
    stream_->Begin(*this);
    begun.Notify();
  }
  void Finish() { stream_->Finish(absl::AbortedError("late")); }

  absl::Notification begun, cancelled, done;

 private:
  void OnWriteDone(bool) override {}
  void OnCancel() override { cancelled.Notify(); }
  void OnDone() override {
    stream_.reset();
    done.Notify();
  }
  std::unique_ptr<ResponseStream> stream_;
};

class TestService final : public RpcService {
 public:
  TestService(const Front& front, PatientCall& patient) : RpcService("test.Service", front) {
    AddRpc("Patient",
           [&patient](std::unique_ptr<RpcStream> stream) { patient.Begin(std::move(stream)); });
    AddRpc("Echo", [](std::unique_ptr<RpcStream> stream) {
      const grpc::ByteBuffer message = stream->request();
      AnswerAtOnce(std::move(stream), message);
    });
  }
};

// A bare server of the service; Stop() as InferenceServer does it.
class Serving {
 public:
  Serving() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    loop = std::make_unique<CallLoop>(builder.AddCompletionQueue());
    front.emplace(Front{gate, {*metrics, timer, {}}, *loop});
    service.emplace(*front, patient);
    builder.RegisterService(&*service);
    server = builder.BuildAndStart();
    service->Listen();
    stub = std::make_unique<grpc::GenericStub>(
        grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials()));
  }
  ~Serving() { Stop(); }
  void Stop() {
    server->Shutdown(std::chrono::system_clock::now());
    server->Wait();
    loop->Stop();
  }

  std::unique_ptr<Metrics> metrics = *Metrics::Create({.listen = "off", .model = "m"});
  CallGate gate;
  Timer timer;
  PatientCall patient;
  std::unique_ptr<CallLoop> loop;
  std::optional<Front> front;
  std::optional<TestService> service;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<grpc::GenericStub> stub;
};

// One RPC of a generic client: `send` messages, then half-closed.
class ClientRpc {
 public:
  ClientRpc(grpc::GenericStub& stub, const std::string& rpc, int send) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    call_ = stub.PrepareCall(&context_, "/test.Service/" + rpc, &queue_);
    call_->StartCall(nullptr);
    Next();
    const grpc::ByteBuffer message = Bytes("hello");
    for (int i = 0; i < send; ++i) {
      call_->Write(message, nullptr);
      Next();
    }
    call_->WritesDone(nullptr);
    Next();
  }
  ~ClientRpc() {
    queue_.Shutdown();
    while (Next()) {
    }
  }

  std::string Read() {
    grpc::ByteBuffer message;
    call_->Read(&message, nullptr);
    return Next() ? TextOf(message) : "nothing";
  }
  grpc::Status Finish() {
    grpc::Status status;
    call_->Finish(&status, nullptr);
    Next();
    return status;
  }

 private:
  bool Next() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }
  grpc::CompletionQueue queue_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

TEST(RpcStreamTest, AnswersAMessageByAMessage) {
  Serving serving;
  ClientRpc call(*serving.stub, "Echo", 1);
  EXPECT_EQ(call.Read(), "hello");
  EXPECT_EQ(call.Read(), "nothing");
  EXPECT_TRUE(call.Finish().ok());
}

TEST(RpcStreamTest, ACallWithoutAMessageIsToldSo) {
  Serving serving;
  ClientRpc call(*serving.stub, "Echo", 0);
  const grpc::Status status = call.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "the call has no request message");
}

// A call may end after its server has, and the loop waits for it.
TEST(RpcStreamTest, TheLoopOutlivesCallsThatEndLate) {
  Serving serving;
  ClientRpc call(*serving.stub, "Patient", 1);
  serving.patient.begun.WaitForNotification();
  std::thread late([&serving] {
    serving.patient.cancelled.WaitForNotification();
    absl::SleepFor(absl::Milliseconds(50));  // the shutdown is past the server, if it does not wait
    EXPECT_FALSE(serving.patient.done.HasBeenNotified());
    serving.patient.Finish();
  });
  serving.Stop();
  EXPECT_TRUE(serving.patient.done.HasBeenNotified());
  late.join();
}

}  // namespace
}  // namespace penstock
