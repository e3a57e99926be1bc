#include "shard/rank_threads.h"

#include <functional>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/backend/cpu/cpu_backend.h"
#include "shard/busy_meter.h"
#include "tests/shard/testing.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr milliseconds kLong{20000};

ModelSpec SmallSpec() {
  ModelSpec spec;
  spec.architecture = "llama";
  spec.layers = 2;
  spec.hidden = 8;
  spec.intermediate = 64;
  spec.heads = 2;
  spec.kv_heads = 2;
  spec.head_dim = 4;
  spec.vocab = 64;
  spec.max_context = 32;
  return spec;
}

// What a rank does for each of its layers.
using LayerScript = std::function<void(ForwardContext& ctx, int rank, Matrix x)>;

// A rank's layers, made of the test's function; the likeliest token is 7.
class ScriptedModel final : public Model {
 public:
  ScriptedModel(int rank, int layers, LayerScript layer)
      : rank_(rank), layers_(layers), layer_(std::move(layer)) {}
  void Embed(ForwardContext&, Matrix x) const override { Fill(x, 0); }
  void Layer(ForwardContext& ctx, int, KvCache*, Matrix x) const override { layer_(ctx, rank_, x); }
  void Head(ForwardContext&, Matrix, Matrix logits) const override {
    Fill(logits, 0);
    for (int64_t row = 0; row < logits.rows; ++row) logits.F32()[row * logits.stride + 7] = 1;
  }
  int layers() const override { return layers_; }
  const AttentionShape& attention_shape() const override { return shape_; }

 private:
  static void Fill(Matrix matrix, float value) {
    for (int64_t row = 0; row < matrix.rows; ++row)
      std::fill_n(matrix.F32() + row * matrix.stride, matrix.cols, value);
  }
  const int rank_, layers_;
  const LayerScript layer_;
  const AttentionShape shape_{.heads = 1, .kv_heads = 1, .head_dim = 4, .scale = 1};
};

// Holds up whoever passes until it is opened.
class Gate {
 public:
  void Pass() {
    MutexLock lock(&mutex_);
    mutex_.Await([this] { return open_; });
  }
  void Open() {
    MutexLock lock(&mutex_);
    open_ = true;
  }

 private:
  Mutex mutex_;
  bool open_ = false;
};

class RankThreadsTest : public ::testing::Test {
 protected:
  std::unique_ptr<RankThreads> Make(int tensor, int pipeline, milliseconds comm_timeout,
                                    const LayerScript& layer) {
    const ModelSpec spec = SmallSpec();
    ShardPlanOptions cut;
    cut.tensor = tensor;
    cut.pipeline = pipeline;
    const ShardPlan plan = ShardPlan::Create(spec, cut).value();
    MemoryPlanOptions options;
    options.max_sequences = 4;
    options.max_step_tokens = 8;
    options.kv_tokens = 64;
    std::vector<std::unique_ptr<Shard>> shards;
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      auto backend = MakeCpuBackend({.threads = 1}).value();
      memory_ = PlanMemory(spec, plan, options, *backend).value();
      auto model = std::make_unique<ScriptedModel>(rank, 2 / pipeline, layer);
      shards.push_back(
          Shard::Create(spec, plan, rank, memory_, std::move(backend), std::move(model)).value());
    }
    GroupOptions groups = PlanGroups(spec, plan, memory_.options);
    groups.tensor.timeout = groups.pipeline.timeout = comm_timeout;
    return std::make_unique<RankThreads>(plan, groups, std::move(shards));
  }

  // One sequence that grows by a token per step.
  std::shared_ptr<const StepBatch> Step(const RankThreads& ranks, int64_t step) {
    StepBatch batch;
    batch.step = step;
    batch.epoch = ranks.epoch();
    const auto position = static_cast<int32_t>(step);
    batch.tokens = {1};
    batch.positions = batch.slots = {position};
    batch.seq_begin = batch.block_begin = {0, 1};
    batch.context_lens = {position + 1};
    batch.blocks = {0};
    SlotAssignment assignment;
    assignment.params.temperature = 0;
    batch.assignments = {assignment};
    batch.samples = {{.row = 0, .slot = 0, .position = position + 1}};
    batch.plan_hash = HashPlan(batch);
    return std::make_shared<const StepBatch>(batch);
  }

  MemoryPlan memory_;
};

TEST_F(RankThreadsTest, AStuckRankIsNamedAndTheGroupComesBackOnceItIsFree) {
  Gate gate;
  std::atomic<bool> stuck{false};
  const auto ranks = Make(2, 1, kLong, [&](ForwardContext& ctx, int rank, Matrix x) {
    if (rank == 1 && stuck.load()) gate.Pass();
    ctx.tensor_group.AllReduceSum(x);
  });
  ranks->Launch(Step(*ranks, 0));
  ASSERT_EQ(ranks->Wait(kLong)->samples.at(0).token, 7);
  stuck = true;
  ranks->Launch(Step(*ranks, 1));
  const absl::Status late = ranks->Wait(milliseconds(100)).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(late.message()),
              AllOf(HasSubstr("rank 1 is still at step 1 (layer 0)"), HasSubstr("100 ms")));
  EXPECT_EQ(ranks->Wait(kLong).status(), late);

  EXPECT_THAT(std::string(ranks->Restart(milliseconds(50)).message()), HasSubstr("rank 1"));
  EXPECT_EQ(ranks->epoch(), 0u);
  stuck = false;
  gate.Open();
  ASSERT_TRUE(ranks->Restart(kLong).ok());
  EXPECT_EQ(ranks->epoch(), 1u);
  ranks->Launch(Step(*ranks, 0));
  const auto result = ranks->Wait(kLong);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->samples.at(0).token, 7);
}

TEST_F(RankThreadsTest, APeerThatStaysAwayIsNamedByStepRankAndOperation) {
  const auto ranks = Make(2, 1, milliseconds(50), [](ForwardContext& ctx, int rank, Matrix x) {
    if (rank == 0) ctx.tensor_group.AllReduceSum(x);  // rank 1 never does
  });
  ranks->Launch(Step(*ranks, 0));
  const absl::Status status = ranks->Wait(kLong).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("step 0"), HasSubstr("tensor (stage 0)"), HasSubstr("AllReduceSum"),
                    HasSubstr("no sign of rank 1")));
}

TEST_F(RankThreadsTest, AFailedStageFreesTheNextOneAtOnceAndSkipsWhatIsLeft) {
  std::atomic<int> layers{0};
  const auto ranks = Make(1, 2, kLong, [&](ForwardContext& ctx, int rank, Matrix) {
    ++layers;
    if (rank == 0) ctx.tensor_group.Abort(absl::DataLossError("bad disk"));
  });
  const auto begin = std::chrono::steady_clock::now();
  ranks->Launch(Step(*ranks, 0));
  const absl::Status status = ranks->Wait(kLong).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("step 0, rank 0, layer 0: bad disk"));
  ASSERT_TRUE(ranks->Restart(kLong).ok());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kLong / 2);
  EXPECT_EQ(layers, 1);  // not those of the second stage
}

TEST_F(RankThreadsTest, ABackendThatIsBrokenForGoodIsNotRestarted) {
  const auto ranks = Make(1, 1, kLong, [](ForwardContext& ctx, int, Matrix x) {
    ctx.dense.Add(x.Cols(0, 1), x);  // the shapes differ
  });
  ranks->Launch(Step(*ranks, 0));
  const absl::Status status = ranks->Wait(kLong).status();
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("step 0, rank 0"), HasSubstr("Add")));
  EXPECT_EQ(ranks->Restart(kLong).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(ranks->Wait(kLong).ok());
}

TEST_F(RankThreadsTest, AnAbortedStepEndsWhenItsLayerDoes) {
  Gate gate;
  std::atomic<int> layers{0};
  const auto ranks = Make(1, 1, kLong, [&](ForwardContext&, int, Matrix) {
    if (++layers == 1) gate.Pass();
  });
  ranks->Launch(Step(*ranks, 0));
  while (layers == 0) std::this_thread::yield();
  ranks->Abort(absl::UnavailableError("enough"));
  EXPECT_EQ(ranks->Wait(kLong).status(), absl::UnavailableError("enough"));
  gate.Open();
  ASSERT_TRUE(ranks->Restart(kLong).ok());
  EXPECT_EQ(layers, 1);
}

// Rank 1 sleeps in each layer while rank 0 waits for it; a scraper looks all the time.
TEST_F(RankThreadsTest, NeitherBusyNorBubbleEverFalls) {
  const auto ranks = Make(2, 2, kLong, [&](ForwardContext& ctx, int rank, Matrix x) {
    if (rank % 2 == 1) std::this_thread::sleep_for(milliseconds(5));
    ctx.tensor_group.AllReduceSum(x);
  });
  std::atomic<bool> ended{false};
  std::thread scraper([&] {
    std::vector<double> busy(2), bubble(2);
    double idle = 0;
    while (!ended.load()) {
      const PipelineStats stats = ranks->Stats();
      EXPECT_GE(stats.elapsed - stats.active, idle);
      idle = stats.elapsed - stats.active;
      for (size_t stage = 0; stage < 2; ++stage) {
        const double now = stats.stages[stage].busy;
        EXPECT_GE(now, busy[stage]);
        EXPECT_GE(stats.active - now, bubble[stage]);
        busy[stage] = now;
        bubble[stage] = stats.active - now;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  });
  for (int64_t step = 0; step < 20; ++step) {
    ranks->Launch(Step(*ranks, step));
    ASSERT_TRUE(ranks->Wait(kLong).ok());
  }
  ended = true;
  scraper.join();
}

TEST(BusyMeterTest, FollowsTheEstimateAsFarAsBothMayRise) {
  BusyMeter meter;
  EXPECT_EQ(meter.Tell(1, 2), 1);
  EXPECT_EQ(meter.Tell(3, 3), 2) << "no faster than active time";
  EXPECT_EQ(meter.Tell(1.5, 4), 2) << "never back";
  EXPECT_EQ(meter.Tell(2.5, 4), 2);
  EXPECT_EQ(meter.Tell(2.5, 5), 2.5);
}

}  // namespace
}  // namespace penstock
