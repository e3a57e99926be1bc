#include "cli/setting_table.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "cli/serve_options.h"
#include "gtest/gtest.h"

namespace penstock {
namespace {

class SettingTableTest : public testing::Test {
 protected:
  SettingTableTest() { DeclareSettings(&options_, &table_); }

  absl::Status Load(const std::string& yaml) {
    const std::string path =
        testing::TempDir() + std::to_string(getpid()) + "_penstock_settings.yaml";
    std::ofstream(path) << yaml;
    const absl::Status status = table_.LoadYaml(path);
    std::remove(path.c_str());
    return status;
  }
  std::string Complaint(const std::string& yaml) {
    const absl::Status status = Load(yaml);
    EXPECT_FALSE(status.ok()) << yaml;
    EXPECT_NE(status.message().find("penstock_settings.yaml"), std::string::npos) << status;
    return std::string(status.message());
  }

  ServeOptions options_;
  SettingTable table_;
};

TEST_F(SettingTableTest, ReadsAFile) {
  ASSERT_TRUE(Load("model: /models/a\n"
                   "tensor: 2\n"
                   "layers: [15, 16]\n"
                   "kv-dtype: f32\n"
                   "grace: 2.5\n"
                   "listen: '[::]:50051'\n")
                  .ok());
  EXPECT_EQ(options_.model.path, "/models/a");
  EXPECT_EQ(options_.model.tensor, 2);
  EXPECT_EQ(options_.model.layers, (std::vector<int>{15, 16}));
  EXPECT_EQ(options_.model.kv_dtype, "f32");
  EXPECT_EQ(options_.server.grace, absl::Milliseconds(2500));
  EXPECT_EQ(options_.server.listen, "[::]:50051");
  EXPECT_EQ(options_.model.pipeline, 1);  // untouched
  EXPECT_TRUE(Load("").ok());
}

TEST_F(SettingTableTest, UnknownKeysNameThemselvesAndTheNearest) {
  const std::string complaint = Complaint("tenser: 2\n");
  EXPECT_NE(complaint.find("\"tenser\""), std::string::npos) << complaint;
  EXPECT_NE(complaint.find("did you mean \"tensor\""), std::string::npos) << complaint;
  EXPECT_EQ(Complaint("zzzzzzzz: 1\n").find("did you mean"), std::string::npos);
}

TEST_F(SettingTableTest, BadValuesNameTheKey) {
  for (const char* yaml : {"tensor: two", "tensor: 0", "tensor: 2.0", "tensor: ' 2'", "tensor: ",
                           "tensor: {a: 1}", "tensor: 99999999999", "tensor: 2\ntensor: 3"})
    EXPECT_NE(Complaint(yaml).find("tensor"), std::string::npos) << yaml;
  EXPECT_NE(Complaint("dtype: int8").find("bf16"), std::string::npos);
  EXPECT_NE(Complaint("grace: .nan").find("grace"), std::string::npos);
  EXPECT_NE(Complaint("grace: -1").find("grace"), std::string::npos);
  EXPECT_NE(Complaint("layers: [1, x]").find("layers"), std::string::npos);
  Complaint("- a\n- b\n");
  Complaint("a: [1\n");
  EXPECT_FALSE(table_.LoadYaml("/nonexistent/file.yaml").ok());
}

TEST_F(SettingTableTest, FlagsOverrideTheFile) {
  CLI::App app;
  table_.DeclareFlags(app);
  app.parse("--tensor 4 --log-level=warn", false);
  ASSERT_TRUE(Load("tensor: 2\npipeline: 3\n").ok());
  ASSERT_TRUE(table_.ApplyFlags().ok());
  EXPECT_EQ(options_.model.tensor, 4);
  EXPECT_EQ(options_.model.pipeline, 3);
  EXPECT_EQ(options_.log_level, "warn");
}

TEST_F(SettingTableTest, BadFlagsNameTheFlag) {
  CLI::App app;
  table_.DeclareFlags(app);
  app.parse("--tensor 4x", false);
  EXPECT_NE(table_.ApplyFlags().message().find("--tensor"), std::string::npos);
}

TEST_F(SettingTableTest, WhatIsPrintedCanBeRead) {
  ASSERT_TRUE(Load("model: 'a: b'\ntensor: 2\nlayers: [1, 2]\nserved-model-name: '7'\n").ok());
  const std::string printed = table_.ToYaml();
  ServeOptions again;
  SettingTable table;
  DeclareSettings(&again, &table);
  const std::string path = testing::TempDir() + std::to_string(getpid()) + "_penstock_printed.yaml";
  std::ofstream(path) << printed;
  const absl::Status status = table.LoadYaml(path);
  std::remove(path.c_str());
  ASSERT_TRUE(status.ok()) << status << "\n" << printed;
  EXPECT_EQ(table.ToYaml(), printed);
  EXPECT_EQ(again.model.path, "a: b");
  EXPECT_EQ(again.model.layers, (std::vector<int>{1, 2}));
}

TEST(ParseSettingTest, BooleansAreStrict) {
  bool value = false;
  EXPECT_TRUE(ParseSetting("true", &value).ok());
  EXPECT_TRUE(value);
  for (const char* text : {"1", "0", "yes", "True", "", "true "})
    EXPECT_FALSE(ParseSetting(text, &value).ok()) << text;
}

TEST_F(SettingTableTest, KnowsWhatWasSetAndWhatThatGoesWith) {
  ASSERT_TRUE(Load("batch-delay: 0\nmax-inputs: 256\nmax-batch: 8\n").ok());
  EXPECT_TRUE(table_.WasSet("max-batch"));
  EXPECT_FALSE(table_.WasSet("batch-delay"));  // as a printed configuration has it
  CLI::App app;
  table_.DeclareFlags(app);
  app.parse("--max-inputs 256", false);
  ASSERT_TRUE(table_.ApplyFlags().ok());
  EXPECT_TRUE(table_.WasSet("max-inputs"));
  EXPECT_TRUE(table_.CheckUses({{"max-inputs", true, "x"}, {"tensor", false, "x"}}).ok());
  EXPECT_EQ(table_.CheckUses({{"max-inputs", false, "company"}}).message(),
            "--max-inputs goes with company alone");
}

TEST_F(SettingTableTest, WhatHasNoMeaningForAModelIsRefused) {
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"max-batch", "3"},
                                                        {"max-batch-tokens", "9"},
                                                        {"batch-delay", "1"},
                                                        {"preferred-batches", "2"},
                                                        {"preserve-order", "true"},
                                                        {"queue-timeout-action", "delay"},
                                                        {"max-inputs", "3"}}) {
    ServeOptions options;
    SettingTable table;
    DeclareSettings(&options, &table);
    EXPECT_TRUE(CheckModelSettings(table, false).ok());
    ASSERT_TRUE(table.Set(name, value).ok()) << name;
    EXPECT_TRUE(CheckModelSettings(table, true).ok()) << name;
    EXPECT_NE(CheckModelSettings(table, false).message().find("--" + name), std::string::npos);
  }
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"replicas", "3"},
                                                        {"kv-dtype", "f32"},
                                                        {"kv-tokens", "64"},
                                                        {"prefill-chunk", "1"},
                                                        {"max-decode-delay", "1"},
                                                        {"prefix-cache", "false"},
                                                        {"batching", "static"},
                                                        {"max-unread", "3"}}) {
    ServeOptions options;
    SettingTable table;
    DeclareSettings(&options, &table);
    EXPECT_TRUE(CheckModelSettings(table, true).ok());
    ASSERT_TRUE(table.Set(name, value).ok()) << name;
    EXPECT_TRUE(CheckModelSettings(table, false).ok()) << name;
    EXPECT_NE(CheckModelSettings(table, true).message().find("--" + name), std::string::npos);
  }
}

TEST(ParseSettingTest, NumbersAreDecimal) {
  absl::Duration duration;
  float number = 0;
  for (const char* text : {"0x10", "0X1p3", "inf", "nan", "1 ", ""}) {
    EXPECT_FALSE(ParseSetting(text, &duration).ok()) << text;
    EXPECT_FALSE(ParseSetting(text, &number).ok()) << text;
  }
  EXPECT_TRUE(ParseSetting("-1.5e-1", &number).ok());
  EXPECT_EQ(number, -0.15f);
}

TEST(ParseSettingTest, NumbersKeepTheirRange) {
  uint64_t large = 0;
  EXPECT_TRUE(ParseSetting("18446744073709551615", &large).ok());
  EXPECT_EQ(large, ~uint64_t{0});
  EXPECT_FALSE(ParseSetting("-1", &large).ok());
  EXPECT_FALSE(ParseSetting("18446744073709551616", &large).ok());
  std::optional<float> number;
  EXPECT_TRUE(ParseSetting("0.25", &number).ok());
  EXPECT_EQ(number, 0.25f);
}

TEST(ServeOptionsTest, NeedAModelAndAStallLimitBeyondTheStepTimeout) {
  ServeOptions options;
  EXPECT_NE(options.Complete().message().find("--model"), std::string::npos);
  options.model.path = "a";
  options.step_timeout = absl::Seconds(100);
  EXPECT_TRUE(options.Complete().ok());
  EXPECT_GT(options.server.health_stall, absl::Seconds(100));
}

TEST_F(SettingTableTest, WhatIsNoFileOrSeveralDocumentsIsAnError) {
  EXPECT_NE(table_.LoadYaml(testing::TempDir()).message().find("regular file"), std::string::npos);
  EXPECT_FALSE(table_.LoadYaml("/nowhere/at-all.yaml").ok());
  EXPECT_NE(Complaint("tensor: 1\n---\ntensor: 2\n").find("document"), std::string::npos);
}

TEST(ServeOptionsTest, AddressesAndTimeoutsThatCannotWorkAreNamed) {
  const auto complaint = [](auto spoil) {
    ServeOptions options;
    options.model.path = "/models/a";
    EXPECT_TRUE(options.Complete().ok());
    spoil(options);
    return std::string(options.Complete().message());
  };
  for (const char* address : {"nope", "", ":0", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999",
                              "127.0.0.1:-1", "127.0.0.1:http"}) {
    EXPECT_NE(complaint([&](ServeOptions& o) { o.server.listen = address; }).find("--listen"),
              std::string::npos)
        << address;
    EXPECT_NE(complaint([&](ServeOptions& o) { o.metrics.listen = address; }).find("--metrics"),
              std::string::npos)
        << address;
  }
  EXPECT_EQ(complaint([](ServeOptions& o) { o.server.listen = "[::]:0"; }), "");
  EXPECT_NE(complaint([](ServeOptions& o) {
              o.step_timeout = absl::ZeroDuration();
            }).find("--step-timeout"),
            std::string::npos);
}

}  // namespace
}  // namespace penstock
