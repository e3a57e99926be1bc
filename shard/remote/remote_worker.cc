#include "shard/remote/remote_worker.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "shard/base/detached_status.h"
#include "shard/base/status_macros.h"
#include "shard/remote/protocol.h"
#include "shard/remote/step_codec.h"

namespace penstock {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kDialSlice{100};

}  // namespace

RemoteWorker::RemoteWorker(WorkerPlace place, RemoteWorkerOptions options, Told told)
    : ranks_(place.ranks),
      local_(place.address.empty()),
      options_(std::move(options)),
      told_(std::move(told)),
      address_(std::move(place.address)) {}

RemoteWorker::~RemoteWorker() { Close().IgnoreError(); }

std::string RemoteWorker::name() const {
  const std::string ranks = absl::StrCat("the worker of rank", ranks_.size() == 1 ? " " : "s ",
                                         absl::StrJoin(ranks_, ", "));
  MutexLock lock(&mutex_);
  if (!local_) return absl::StrCat(ranks, " (", address_, ")");
  return pid_ == 0 ? ranks : absl::StrCat(ranks, " (pid ", pid_, ")");
}

std::string RemoteWorker::Move(const std::string& address) {
  MutexLock lock(&mutex_);
  return std::exchange(address_, address);
}

// Afterwards nothing of what was is told any more.
absl::Status RemoteWorker::Close() {
  {
    MutexLock lock(&mutex_);
    sending_ = nullptr;
    ready_ = false;
  }
  link_.reset();
  process_.reset();
  channel_.reset();
  RemoveSocket();
  MutexLock lock(&mutex_);
  pid_ = 0;
  broken_ = lost_ = absl::OkStatus();
  answer_.reset();
  silent_ = std::chrono::milliseconds(0);
  if (!interrupted_) return absl::OkStatus();
  interrupted_ = false;
  return absl::CancelledError("interrupted");
}

absl::StatusOr<std::string> RemoteWorker::Open(const v1::Load& load, LoadProgress* progress) {
  RETURN_IF_ERROR(Close());
  {
    MutexLock lock(&mutex_);
    progress_ = progress;
  }
  if (local()) RETURN_IF_ERROR(StartProcess());
  RETURN_IF_ERROR(Dial());
  RETURN_IF_ERROR(Greet());
  v1::LeaderMessage message;
  *message.mutable_load() = load;
  absl::StatusOr<v1::WorkerMessage> answer =
      Ask(std::move(message), v1::WorkerMessage::kLoaded, "loading", options_.load_timeout);
  MutexLock lock(&mutex_);
  progress_ = nullptr;
  RETURN_IF_ERROR(answer.status());
  const absl::Status outcome = DecodeOutcome(answer->loaded().outcome());
  if (!outcome.ok()) return outcome;
  if (!lost_.ok()) return Detached(lost_);
  ready_ = true;
  ++opened_;
  return answer->loaded().signature();
}

absl::Status RemoteWorker::StartProcess() {
  std::string directory = absl::StrCat(options_.socket_directory, "/penstock-XXXXXX");
  if (mkdtemp(directory.data()) == nullptr)
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot make a folder like ", directory));
  socket_ = absl::StrCat("unix:", directory, "/rank-", ranks_.front(), ".sock");
  ASSIGN_OR_RETURN(
      process_, WorkerProcess::Start(
                    options_.program,
                    {"penstock", "shard", "--listen", socket_, "--leader", absl::StrCat(getpid())},
                    [this](const std::string& how) {
                      Lose(absl::UnavailableError(absl::StrCat("its process ", how)));
                    }));
  MutexLock lock(&mutex_);
  pid_ = process_->pid();
  return absl::OkStatus();
}

// The socket has done its work once somebody is connected, and nothing is to be left behind.
void RemoteWorker::RemoveSocket() {
  if (socket_.empty()) return;
  const std::string path(absl::StripPrefix(socket_, "unix:"));
  unlink(path.c_str());
  rmdir(path.substr(0, path.rfind('/')).c_str());
  socket_.clear();
}

absl::Status RemoteWorker::Dial() {
  const auto credentials =
      local() ? grpc::InsecureChannelCredentials() : options_.credentials.channel();
  std::string address = socket_;
  if (!local()) {
    MutexLock lock(&mutex_);
    address = address_;
  }
  channel_ = MakeWorkerChannel(address, credentials);
  const auto end = Clock::now() + options_.dial_timeout;
  while (!channel_->WaitForConnected(std::chrono::system_clock::now() + kDialSlice)) {
    MutexLock lock(&mutex_);
    if (!lost_.ok()) return Detached(lost_);
    if (interrupted_) return absl::CancelledError("interrupted");
    if (Clock::now() < end) continue;
    if (!local()) return absl::OkStatus();  // the call will tell why
    return absl::UnavailableError(
        absl::StrCat("it does not listen within ", options_.dial_timeout.count(), " ms"));
  }
  return absl::OkStatus();
}

absl::Status RemoteWorker::Greet() {
  link_ = std::make_unique<WorkerLink>(
      channel_,
      [this](grpc::ClientContext* context) {
        if (!local()) options_.credentials.Sign(context);
      },
      [this](const v1::WorkerMessage& message) { OnMessage(message); },
      [this](const grpc::Status& end) { Break(end); });
  {
    MutexLock lock(&mutex_);
    sending_ = link_.get();
  }
  v1::LeaderMessage message;
  *message.mutable_hello() = OwnHello(options_.build);
  ASSIGN_OR_RETURN(
      const v1::WorkerMessage answer,
      Ask(std::move(message), v1::WorkerMessage::kHello, "its greeting", options_.dial_timeout));
  RemoveSocket();
  return CheckHello(answer.hello(), options_.build);
}

absl::StatusOr<v1::WorkerMessage> RemoteWorker::Ask(v1::LeaderMessage message,
                                                    v1::WorkerMessage::KindCase answer,
                                                    const char* what,
                                                    std::chrono::milliseconds bound) {
  MutexLock lock(&mutex_);
  answer_.reset();
  if (sending_ != nullptr) sending_->Send(std::move(message));
  mutex_.AwaitFor(
      [this] {
        mutex_.AssertHeld();
        return answer_ || !lost_.ok() || interrupted_;
      },
      bound);
  if (!lost_.ok()) return Detached(lost_);
  if (interrupted_) return absl::CancelledError("interrupted");
  if (!answer_)
    return absl::DeadlineExceededError(
        absl::StrCat(what, " has taken longer than ", bound.count(), " ms"));
  if (answer_->kind_case() != answer)
    return absl::InternalError(absl::StrCat("it answers something else than ", what));
  return *std::move(answer_);
}

absl::StatusOr<v1::Prepared> RemoteWorker::Prepare(const v1::Connect& order,
                                                   std::chrono::milliseconds bound) {
  v1::LeaderMessage message;
  *message.mutable_prepare() = order;
  absl::StatusOr<v1::WorkerMessage> answer =
      Ask(std::move(message), v1::WorkerMessage::kPrepared, "preparing", bound);
  if (!answer.ok()) return answer.status();
  RETURN_IF_ERROR(DecodeOutcome(answer->prepared().outcome()));
  return answer->prepared();
}

absl::StatusOr<v1::Connected> RemoteWorker::Connect(const v1::Connect& order,
                                                    std::chrono::milliseconds bound) {
  v1::LeaderMessage message;
  *message.mutable_connect() = order;
  absl::StatusOr<v1::WorkerMessage> answer =
      Ask(std::move(message), v1::WorkerMessage::kConnected, "joining its groups", bound);
  if (!answer.ok()) return answer.status();
  RETURN_IF_ERROR(DecodeOutcome(answer->connected().outcome()));
  return answer->connected();
}

void RemoteWorker::Send(v1::LeaderMessage message) {
  MutexLock lock(&mutex_);
  if (sending_ != nullptr) sending_->Send(std::move(message));
}

void RemoteWorker::OnMessage(const v1::WorkerMessage& message) {
  {
    MutexLock lock(&mutex_);
    silent_ = std::chrono::milliseconds(0);
    if (message.has_alive()) {
      resident_bytes_ = message.alive().resident_bytes();
      return;
    }
    if (message.has_progress()) return NoteProgress(message.progress());
    if (!message.has_done()) {
      answer_ = message;
      return;
    }
  }
  told_.done(message.done());
}

void RemoteWorker::NoteProgress(const v1::LoadProgress& progress) {
  if (progress_ == nullptr || progress.rank() >= progress_->ranks.size()) return;
  ReadProgress& rank = progress_->ranks[progress.rank()];
  rank.file_bytes.store(progress.file_bytes());
  rank.wanted_bytes.store(progress.wanted_bytes());
}

// A process of ours that has died will tell so in a moment, which says more.
void RemoteWorker::Break(const grpc::Status& end) {
  const absl::Status why = end.ok() ? absl::UnavailableError("it has ended the session")
                                    : options_.credentials.Explain(end);
  if (!local()) return Lose(why);
  MutexLock lock(&mutex_);
  broken_ = why;
}

void RemoteWorker::Lose(const absl::Status& why) {
  {
    MutexLock lock(&mutex_);
    if (!lost_.ok()) return;
    lost_ = Detached(why);
    sending_ = nullptr;
    if (!ready_) return;
    ready_ = false;
  }
  told_.lost(absl::Status(why.code(), absl::StrCat(name(), ": ", why.message())));
}

void RemoteWorker::Tick(std::chrono::milliseconds since_last) {
  absl::Status broken;
  {
    MutexLock lock(&mutex_);
    if (sending_ != nullptr) silent_ += since_last;
    broken = broken_;
  }
  if (!broken.ok()) return Lose(broken);
  LoseIfSilent(options_.silence);
}

void RemoteWorker::LoseIfSilent(std::chrono::milliseconds bound) {
  {
    MutexLock lock(&mutex_);
    if (sending_ == nullptr || silent_ < bound) return;
  }
  Lose(absl::UnavailableError(absl::StrCat("no sign of life for ", bound.count(), " ms")));
}

void RemoteWorker::Interrupt() {
  MutexLock lock(&mutex_);
  interrupted_ = true;
}

bool RemoteWorker::ready() const {
  MutexLock lock(&mutex_);
  return ready_;
}

int64_t RemoteWorker::resident_bytes() const {
  MutexLock lock(&mutex_);
  return resident_bytes_;
}

int64_t RemoteWorker::opened() const {
  MutexLock lock(&mutex_);
  return opened_;
}

}  // namespace penstock
