#include "shard/remote/worker_session.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "shard/base/cpus.h"
#include "shard/base/host_memory.h"
#include "shard/base/status_macros.h"
#include "shard/base/thread_name.h"
#include "shard/comm/link_test.h"
#include "shard/remote/protocol.h"
#include "shard/remote/step_codec.h"
#include "shard/step_check.h"

namespace penstock {
namespace {

constexpr std::chrono::milliseconds kPulse{500};

absl::Status CheckRoom(const LoadOrder& order) {
  const int64_t available = AvailableHostBytes();
  if (order.needed_bytes <= available) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "too little memory on this host: rank", order.ranks.size() == 1 ? " " : "s ",
      absl::StrJoin(order.ranks, ", "), " will take ", order.needed_bytes >> 20, " MiB, ",
      available >> 20, " MiB are available; use a smaller --max-context, --kv-tokens or --dtype, ",
      "or more hosts"));
}

}  // namespace

WorkerSession::WorkerSession(WorkerOptions options, Send send)
    : options_(std::move(options)), send_(std::move(send)), pulse_([this] { Pulse(); }) {}

WorkerSession::~WorkerSession() {
  {
    MutexLock lock(&loading_);
    ended_ = true;
  }
  pulse_.join();
  // All at once: a rank may be waiting for another.
  for (const auto& runner : runners_)
    runner->Abort(absl::CancelledError("the worker's session has ended"));
}

absl::Status WorkerSession::Handle(const v1::LeaderMessage& message) {
  if (message.has_hello()) return OnHello(message.hello());
  if (!greeted_) return absl::FailedPreconditionError("the leader has not said who it is");
  if (message.has_load()) return OnLoad(message.load());
  if (message.has_prepare()) return OnPrepare(message.prepare());
  if (message.has_connect()) return OnConnect(message.connect());
  if (message.has_run()) return OnRun(message.run());
  if (message.has_abort()) {
    OnAbort(message.abort());
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("a message of no known kind");
}

void WorkerSession::SendOne(const v1::WorkerMessage& message) {
  MutexLock lock(&sending_);
  send_(message);
}

void WorkerSession::Pulse() {
  NameThread("pulse");
  MutexLock lock(&loading_);
  const auto ended = [this] {
    loading_.AssertHeld();
    return ended_;
  };
  while (!loading_.AwaitFor(ended, kPulse)) {
    v1::WorkerMessage message;
    message.mutable_alive()->set_resident_bytes(ResidentBytes());
    SendOne(message);
    if (progress_) SendProgress();
  }
}

void WorkerSession::SendProgress() {
  for (size_t i = 0; i < progress_->ranks.size(); ++i) {
    v1::WorkerMessage message;
    message.mutable_progress()->set_rank(static_cast<uint32_t>(loading_ranks_[i]));
    message.mutable_progress()->set_file_bytes(progress_->ranks[i].file_bytes.load());
    message.mutable_progress()->set_wanted_bytes(progress_->ranks[i].wanted_bytes.load());
    SendOne(message);
  }
}

absl::Status WorkerSession::OnHello(const v1::Hello& hello) {
  RETURN_IF_ERROR(CheckHello(hello, options_.build));
  greeted_ = true;
  v1::WorkerMessage answer;
  *answer.mutable_hello() = OwnHello(options_.build);
  SendOne(answer);
  return absl::OkStatus();
}

absl::Status WorkerSession::OnLoad(const v1::Load& load) {
  if (!runners_.empty()) return absl::FailedPreconditionError("the ranks are loaded already");
  ASSIGN_OR_RETURN(LoadOrder order, DecodeLoad(load));
  if (!options_.model_path.empty()) order.model_path = options_.model_path;
  const absl::Status outcome = LoadRanks(std::move(order));
  v1::WorkerMessage answer;
  *answer.mutable_loaded()->mutable_outcome() = EncodeOutcome(outcome);
  answer.mutable_loaded()->set_signature(signature_);
  SendOne(answer);
  return absl::OkStatus();
}

absl::Status WorkerSession::LoadRanks(LoadOrder order) {
  order_ = std::move(order);
  ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint,
                   Checkpoint::Open(order_.model_path));
  if (Fingerprint(*checkpoint) != order_.fingerprint)
    return absl::FailedPreconditionError(
        absl::StrCat(order_.model_path,
                     " is not the model that the leader has: configuration or tensors differ"));
  RETURN_IF_ERROR(CheckRoom(order_));
  ASSIGN_OR_RETURN(spec_, ParseModelSpec(checkpoint->config()));
  ASSIGN_OR_RETURN(plan_, ShardPlan::Create(spec_, order_.plan));
  CpuOptions cpu = order_.cpu;
  const auto count = static_cast<int>(order_.ranks.size());
  if (cpu.threads == 0) cpu.threads = std::max(1, AvailableCpus() / count);
  LoadProgress* progress = nullptr;
  {
    MutexLock lock(&loading_);
    loading_ranks_ = order_.ranks;
    progress_ = std::make_unique<LoadProgress>(order_.ranks.size());
    progress = progress_.get();
  }
  auto shards = LoadShards(*checkpoint, spec_, plan_, order_.ranks, order_.memory, cpu, progress);
  MutexLock lock(&loading_);
  SendProgress();
  progress_.reset();
  RETURN_IF_ERROR(shards.status());
  signature_ = shards->front()->signature();
  for (size_t i = 0; i < shards->size(); ++i)
    runners_.push_back(std::make_unique<RankRunner>(
        order_.ranks[i], std::move((*shards)[i]),
        [this](int rank, uint64_t epoch, const absl::StatusOr<StepResult>& share,
               const StageStats& stats) { OnDone(rank, epoch, share, stats); }));
  return absl::OkStatus();
}

absl::Status WorkerSession::CheckEpoch(uint64_t epoch) const {
  if (runners_.empty()) return absl::FailedPreconditionError("no ranks are loaded");
  if (connected_ && epoch <= epoch_)
    return absl::FailedPreconditionError(
        absl::StrCat("epoch ", epoch, " is over, this is epoch ", epoch_));
  return absl::OkStatus();
}

absl::Status WorkerSession::OnPrepare(const v1::Connect& order) {
  RETURN_IF_ERROR(CheckEpoch(order.epoch()));
  GroupOptions groups = PlanGroups(spec_, plan_, order_.memory.options);
  for (CommOptions* group : {&groups.tensor, &groups.pipeline})
    group->timeout = order_.step_timeout;
  join_ = std::make_unique<GroupJoin>(plan_, groups, order_.ranks, options_.data_address);
  const auto addresses = join_->Prepare(order);
  v1::WorkerMessage answer;
  answer.mutable_prepared()->set_epoch(order.epoch());
  *answer.mutable_prepared()->mutable_outcome() = EncodeOutcome(addresses.status());
  if (addresses.ok())
    for (const v1::RankAddress& address : *addresses)
      *answer.mutable_prepared()->add_addresses() = address;
  SendOne(answer);
  return absl::OkStatus();
}

absl::Status WorkerSession::OnConnect(const v1::Connect& order) {
  RETURN_IF_ERROR(CheckEpoch(order.epoch()));
  if (!join_) return absl::FailedPreconditionError("connect: not prepared");
  connected_ = true;
  epoch_ = order.epoch();
  v1::WorkerMessage answer;
  answer.mutable_connected()->set_epoch(epoch_);
  const absl::Status outcome = Join(order, answer.mutable_connected());
  *answer.mutable_connected()->mutable_outcome() = EncodeOutcome(outcome);
  join_.reset();
  SendOne(answer);
  return absl::OkStatus();
}

absl::Status WorkerSession::Join(const v1::Connect& order, v1::Connected* answer) {
  ASSIGN_OR_RETURN(std::vector<GroupJoin::RankGroups> groups, join_->Join(order));
  if (order.link_test()) RETURN_IF_ERROR(TestGroups(groups, answer));
  const std::chrono::milliseconds bound(order.join_timeout_ms());
  for (const auto& runner : runners_) runner->Abort(absl::AbortedError("another epoch begins"));
  for (size_t i = 0; i < runners_.size(); ++i)
    RETURN_IF_ERROR(runners_[i]->Connect(std::move(groups[i].tensor), std::move(groups[i].pipeline),
                                         epoch_, bound));
  return absl::OkStatus();
}

// All ranks at once, each its tensor group first: all of them are needed.
absl::Status WorkerSession::TestGroups(std::vector<GroupJoin::RankGroups>& groups,
                                       v1::Connected* answer) {
  const GroupOptions options = PlanGroups(spec_, plan_, order_.memory.options);
  Mutex noting;
  absl::Status failed;
  const auto test = [&](size_t at, bool tensor) {
    const auto speed = tensor ? TestLinks(*groups[at].tensor, options.tensor.max_elements)
                              : TestLinks(*groups[at].pipeline, options.pipeline.max_elements);
    MutexLock lock(&noting);
    failed.Update(speed.status());
    if (!speed.ok() || speed->latency_us == 0) return;
    v1::Link* link = answer->add_links();
    link->set_rank(static_cast<uint32_t>(order_.ranks[at]));
    link->set_tensor(tensor);
    link->set_latency_us(speed->latency_us);
    link->set_bytes_per_second(speed->bytes_per_second);
  };
  std::vector<std::thread> threads;
  for (size_t at = 0; at < groups.size(); ++at)
    threads.emplace_back([&test, at] {
      test(at, /*tensor=*/true);
      test(at, /*tensor=*/false);
    });
  for (std::thread& thread : threads) thread.join();
  return failed;
}

absl::Status WorkerSession::OnRun(const v1::Step& message) {
  if (!connected_) return absl::FailedPreconditionError("the ranks are not connected");
  if (message.epoch() < epoch_) return absl::OkStatus();  // overtaken by Connect; nobody waits
  ASSIGN_OR_RETURN(StepBatch decoded, DecodeStep(message));
  RETURN_IF_ERROR(CheckStep(decoded, order_.memory.info));
  const auto batch = std::make_shared<const StepBatch>(std::move(decoded));
  for (const auto& runner : runners_) runner->Launch(batch);
  return absl::OkStatus();
}

void WorkerSession::OnAbort(const v1::AbortSteps& abort) {
  if (!connected_ || abort.epoch() != epoch_) return;
  const absl::Status why = DecodeOutcome(abort.why());
  for (const auto& runner : runners_)
    runner->Abort(why.ok() ? absl::CancelledError("aborted") : why);
}

void WorkerSession::OnDone(int rank, uint64_t epoch, const absl::StatusOr<StepResult>& share,
                           const StageStats& stats) {
  v1::WorkerMessage message;
  if (share.ok()) {
    *message.mutable_done() = EncodeDone(rank, epoch, *share, stats);
  } else {
    message.mutable_done()->set_rank(static_cast<uint32_t>(rank));
    message.mutable_done()->set_epoch(epoch);
    *message.mutable_done()->mutable_outcome() = EncodeOutcome(share.status());
  }
  SendOne(message);
}

}  // namespace penstock
