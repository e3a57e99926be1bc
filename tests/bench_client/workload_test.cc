#include "cli/bench/workload.h"

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "cli/bench/length_distribution.h"
#include "cli/bench/start_times.h"
#include "gtest/gtest.h"

namespace penstock {
namespace {

LengthDistribution Parsed(const std::string& text) {
  LengthDistribution value = LengthDistribution::Fixed(1);
  EXPECT_TRUE(ParseSetting(text, &value).ok()) << text;
  return value;
}

std::vector<int32_t> DrawMany(const LengthDistribution& lengths, int count) {
  RandomStream random(7, RandomStream::Purpose::kLengths, 0);
  std::vector<int32_t> drawn;
  for (int i = 0; i < count; ++i) drawn.push_back(lengths.Draw(random));
  return drawn;
}

double Mean(const std::vector<int32_t>& values) {
  double sum = 0;
  for (int32_t value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

TEST(LengthDistributionTest, FixedAndUniform) {
  EXPECT_EQ(DrawMany(Parsed("64"), 3), (std::vector<int32_t>{64, 64, 64}));
  const std::vector<int32_t> drawn = DrawMany(Parsed("uniform:16-256"), 20000);
  const std::set<int32_t> seen(drawn.begin(), drawn.end());
  EXPECT_EQ(*seen.begin(), 16);
  EXPECT_EQ(*seen.rbegin(), 256);
  EXPECT_EQ(seen.size(), 241u);
  EXPECT_NEAR(Mean(drawn), 136, 1.5);  // standard error 0.5
}

TEST(LengthDistributionTest, ExponentialHasItsMeanAndIsMemoryless) {
  const std::vector<int32_t> drawn = DrawMany(Parsed("exponential:64"), 100000);
  EXPECT_NEAR(Mean(drawn), 64, 0.8);  // standard error 0.2
  int longer = 0;
  for (int32_t length : drawn) {
    ASSERT_GE(length, 1);
    longer += length > 64 ? 1 : 0;
  }
  EXPECT_NEAR(longer / 1e5, std::pow(1 - 1.0 / 64, 64), 0.01);
  EXPECT_EQ(DrawMany(Parsed("exponential:1"), 3), (std::vector<int32_t>{1, 1, 1}));
}

TEST(LengthDistributionTest, ReadsAndWritesItsText) {
  for (const char* text : {"1", "uniform:16-256", "uniform:5-5", "exponential:64"})
    EXPECT_EQ(FormatSetting(Parsed(text)), text);
  LengthDistribution value = LengthDistribution::Fixed(3);
  for (const char* text :
       {"", "0", "-1", "1.5", " 5", "+5", "uniform:", "uniform:5", "uniform:9-5", "uniform:0-5",
        "uniform:1-2-3", "exponential:", "normal:4", "99999999999"}) {
    const absl::Status status = ParseSetting(text, &value);
    EXPECT_FALSE(status.ok()) << text;
    EXPECT_TRUE(absl::StrContains(status.message(), "uniform:LEAST-MOST")) << status;
  }
  EXPECT_EQ(FormatSetting(value), "3");  // untouched
}

TEST(StartTimesTest, PoissonArrivalsHaveTheRateAndNoMemory) {
  PoissonArrivals arrivals(50, 3);
  std::vector<double> gaps;
  double last = 0;
  for (int i = 0; i < 20000; ++i) {
    const double at = absl::ToDoubleSeconds(*arrivals.next());
    gaps.push_back(at - last);
    last = at;
    arrivals.OnStart();
  }
  EXPECT_NEAR(20000 / last, 50, 1.5);
  double square = 0;
  for (double gap : gaps) {
    ASSERT_GE(gap, 0);
    square += gap * gap;
  }
  EXPECT_NEAR(square / 20000 * 50 * 50, 2, 0.15);  // of an exponential distribution
}

TEST(StartTimesTest, ASeedGivesOneSequence) {
  PoissonArrivals a(10, 1), b(10, 1), c(10, 2);
  bool differ = false;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(*a.next(), *b.next());
    differ = differ || *a.next() != *c.next();
    for (PoissonArrivals* one : {&a, &b, &c}) one->OnStart();
  }
  EXPECT_TRUE(differ);
}

TEST(StartTimesTest, AClosedLoopStartsWhenAClientIsFree) {
  ClosedLoop loop(2);
  EXPECT_EQ(*loop.next(), absl::ZeroDuration());
  loop.OnStart();
  EXPECT_EQ(*loop.next(), absl::ZeroDuration());
  loop.OnStart();
  EXPECT_EQ(*loop.next(), absl::InfiniteDuration());
  loop.OnEnd(absl::Seconds(3), true);
  EXPECT_EQ(*loop.next(), absl::Seconds(3));
  loop.OnStart();
  loop.OnEnd(absl::Seconds(4), false);
  EXPECT_EQ(*loop.next(), absl::Seconds(4) + ClosedLoop::kPauseAfterFailure);
  EXPECT_FALSE(loop.counts_from_schedule());
}

TEST(StartTimesTest, ATraceEnds) {
  const std::vector<TraceRow> rows = {{absl::Seconds(1), 5, 6}, {absl::Seconds(2), 7, 8}};
  TraceArrivals arrivals(rows);
  EXPECT_EQ(*arrivals.next(), absl::Seconds(1));
  arrivals.OnStart();
  EXPECT_EQ(*arrivals.next(), absl::Seconds(2));
  arrivals.OnStart();
  EXPECT_FALSE(arrivals.next());
  EXPECT_TRUE(arrivals.counts_from_schedule());
}

TEST(TraceFileTest, ReadsRowsHeadingAndComments) {
  const auto rows =
      ParseTrace("t.csv", "arrival,prompt,output\r\n# note\n0, 10, 20\r\n\n1.25,3,4\n");
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ(ParseTrace("t.csv",
                       "\xEF\xBB\xBF"
                       "0,1,2\n1,3,4\n")
                ->size(),
            2u);
  EXPECT_EQ((*rows)[1].arrival, absl::Milliseconds(1250));
  EXPECT_EQ((*rows)[0].prompt_tokens, 10);
  EXPECT_EQ((*rows)[1].output_tokens, 4);
}

TEST(TraceFileTest, ErrorsNameFileLineAndField) {
  const auto complaint = [](const std::string& text) {
    return std::string(ParseTrace("t.csv", text).status().message());
  };
  EXPECT_EQ(complaint(""), "t.csv: has no requests");
  EXPECT_EQ(complaint("a,b,c\n"), "t.csv: has no requests");
  // A first line with a mistake is no heading.
  EXPECT_TRUE(absl::StartsWith(complaint("x,1,2\n0,1,2\n"), "t.csv:1: arrival: "));
  EXPECT_TRUE(absl::StartsWith(complaint("0x1,1,2\n0,1,2\n"), "t.csv:1: arrival: "));
  EXPECT_TRUE(absl::StartsWith(complaint("0,1,2\n0,1\n"), "t.csv:2: expected arrival"));
  EXPECT_TRUE(absl::StartsWith(complaint("0,1,2\nx,1,2\n"), "t.csv:2: arrival: "));
  EXPECT_TRUE(absl::StartsWith(complaint("-1,1,2\n"), "t.csv:1: arrival: "));
  EXPECT_TRUE(absl::StartsWith(complaint("nan,1,2\n"), "t.csv:1: arrival: "));
  EXPECT_TRUE(absl::StartsWith(complaint("0,0,2\n"), "t.csv:1: prompt tokens: "));
  EXPECT_TRUE(absl::StartsWith(complaint("0,1,2.5\n"), "t.csv:1: output tokens: "));
  EXPECT_EQ(complaint("2,1,2\n1,1,2\n"), "t.csv:2: arrives before the line above");
  EXPECT_TRUE(absl::StrContains(ReadTrace("/no/such.csv").status().message(), "/no/such.csv"));
}

TEST(WorkloadTest, ARequestDependsOnSeedAndIndexAlone) {
  Workload::Options options;
  options.prompt_tokens = LengthDistribution::Uniform(10, 50);
  options.output_tokens = LengthDistribution::Exponential(20);
  const Workload one(options), same(options);
  same.Plan(3);
  const PlannedRequest a = one.Plan(5), b = same.Plan(5), c = one.Plan(6);
  EXPECT_EQ(a.inputs[0].tokens, b.inputs[0].tokens);
  EXPECT_EQ(a.output_tokens, b.output_tokens);
  EXPECT_NE(a.inputs[0].tokens, c.inputs[0].tokens);
  EXPECT_EQ(a.prompt_tokens, static_cast<int64_t>(a.inputs[0].tokens.size()));
  options.seed = 1;
  EXPECT_NE(Workload(options).Plan(5).inputs[0].tokens, a.inputs[0].tokens);
}

TEST(WorkloadTest, IdsStayBelowTheVocabularyAndPrefixesAreShared) {
  Workload::Options options;
  options.vocab = 7;
  options.shared_prefix = 20;
  options.prompt_tokens = LengthDistribution::Fixed(40);
  const Workload workload(options);
  const std::vector<int32_t> a = workload.Plan(0).inputs[0].tokens;
  const std::vector<int32_t> b = workload.Plan(-1).inputs[0].tokens;
  EXPECT_EQ(std::set<int32_t>(a.begin(), a.end()), (std::set<int32_t>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + 20, b.begin()));
  EXPECT_NE(a, b);
  options.prompt_tokens = LengthDistribution::Fixed(5);  // shorter than the prefix
  EXPECT_EQ(Workload(options).Plan(0).inputs[0].tokens.size(), 5u);
}

TEST(WorkloadTest, TextHasAWordPerToken) {
  Workload::Options options;
  options.as_text = true;
  options.inputs = 3;
  options.prompt_tokens = LengthDistribution::Fixed(12);
  const PlannedRequest request = Workload(options).Plan(0);
  ASSERT_EQ(request.inputs.size(), 3u);
  EXPECT_EQ(request.prompt_tokens, 36);
  for (const PromptInput& input : request.inputs) {
    EXPECT_TRUE(input.tokens.empty());
    EXPECT_EQ(std::vector<std::string>(absl::StrSplit(input.text, ' ')).size(), 12u);
  }
}

TEST(WorkloadTest, ATraceGivesTheLengths) {
  Workload::Options options;
  options.trace = {{absl::ZeroDuration(), 5, 6}, {absl::Seconds(1), 7, 8}};
  const Workload workload(options);
  EXPECT_EQ(workload.Plan(1).inputs[0].tokens.size(), 7u);
  EXPECT_EQ(workload.Plan(1).output_tokens, 8);
  EXPECT_EQ(workload.Plan(-1).output_tokens, 8);  // warm-up
  EXPECT_EQ(workload.Plan(-2).output_tokens, 6);
}

}  // namespace
}  // namespace penstock
