#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "gtest/gtest.h"

namespace penstock {
namespace {

// What `penstock bench ARGUMENTS` would exit with; 2 as main() gives it for errors of prepare().
int Bench(std::vector<std::string> arguments) {
  CLI::App program("penstock", "penstock");
  const Command command = MakeBenchCommand(program);
  arguments.insert(arguments.begin(), "bench");
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  program.parse(arguments);
  if (!command.prepare().ok()) return 2;
  const absl::StatusOr<int> code = command.run();
  return code.ok() ? *code : 1;
}

TEST(BenchCommandTest, WrongOptionsAreTheUsers) {
  EXPECT_EQ(Bench({"--concurrency", "2", "--rate", "3"}), 2);
  EXPECT_EQ(Bench({"--prompt-tokens", "many"}), 2);
  EXPECT_EQ(Bench({"--slo", "ttft"}), 2);
  EXPECT_EQ(Bench({"--trace", "/no/such/file"}), 2);
  EXPECT_EQ(Bench({"--protocol", "http"}), 2);
}

TEST(BenchCommandTest, OptionsWithoutAMeaningAreRefused) {
  EXPECT_EQ(Bench({"--input-tokens", "5"}), 2);
  EXPECT_EQ(Bench({"--token-counts"}), 2);
  EXPECT_EQ(Bench({"--token-counts=false"}), 2);
  EXPECT_EQ(Bench({"--shared-prefix", "200"}), 2);
  EXPECT_EQ(Bench({"--kind", "embed", "--output-tokens", "5"}), 2);
  EXPECT_EQ(Bench({"--text", "--vocab", "5"}), 2);
  const std::string path = absl::StrCat(testing::TempDir(), getpid(), "_trace.csv");
  std::ofstream(path) << "0,1,2\n";
  EXPECT_EQ(Bench({"--trace", path, "--prompt-tokens", "5"}), 2);
  EXPECT_EQ(Bench({"--trace", path, "--address", "127.0.0.1:1"}), 1);
  std::remove(path.c_str());
}

TEST(BenchCommandTest, ReportsThatCannotBeWrittenAreKnownBeforeTheLoad) {
  for (const char* report : {"--json", "--csv", "--html"})
    EXPECT_EQ(Bench({"--address", "127.0.0.1:1", report, "/no/such/folder/report"}), 2) << report;
}

TEST(BenchCommandTest, WithoutASuccessItFailsAndStillReports) {
  const std::string path = absl::StrCat(testing::TempDir(), getpid(), "_bench.json");
  EXPECT_EQ(Bench({"--address", "127.0.0.1:1", "--requests", "3", "--json", path}), 1);
  std::ifstream file(path);
  const std::string json(std::istreambuf_iterator<char>(file), {});
  EXPECT_NE(json.find("\"UNAVAILABLE\""), std::string::npos) << json;
  EXPECT_NE(json.find("\"requests\": \"3\""), std::string::npos) << json;  // the settings
  std::remove(path.c_str());
}

TEST(BenchCommandTest, OptionsOfTheOtherKindAreRefused) {
  EXPECT_EQ(Bench({"--profile", "--model", "m", "--rate", "3"}), 2);
  EXPECT_EQ(Bench({"--profile", "--model", "m", "--html", "report.html"}), 2);
  EXPECT_EQ(Bench({"--threads", "2"}), 2);
  EXPECT_EQ(Bench({"--compute", "fp32"}), 2);
}

TEST(BenchCommandTest, OptionsOfAProfileAreChecked) {
  EXPECT_EQ(Bench({"--profile"}), 2) << "no model";
  for (const char* option : {"--sequences=0", "--sequences=1,0", "--context=0", "--prompt=-1",
                             "--threads=-1", "--compute=fp64", "--dtype=i8"})
    EXPECT_EQ(Bench({"--profile", "--model", "m", option}), 2) << option;
  EXPECT_EQ(Bench({"--profile", "--model", "/no/such/model"}), 1);
}

TEST(BenchCommandTest, ProfilesACheckpoint) {
  const std::string path = absl::StrCat(testing::TempDir(), getpid(), "_profile.json");
  const std::string model = absl::StrCat(PENSTOCK_TEST_DATA, "/models/llama-uneven");
  EXPECT_EQ(Bench({"--profile", "--model", model, "--threads", "1", "--sequences", "1,3",
                   "--context", "20", "--prompt", "30", "--json", path}),
            0);
  std::ifstream file(path);
  const std::string json(std::istreambuf_iterator<char>(file), {});
  EXPECT_NE(json.find("Decode of 3 sequence(s), context 20"), std::string::npos) << json;
  EXPECT_NE(json.find("A prompt of 30 tokens"), std::string::npos) << json;
  EXPECT_NE(json.find("MatMulSiluMul 72x192"), std::string::npos) << json;
  std::remove(path.c_str());
}

}  // namespace
}  // namespace penstock
