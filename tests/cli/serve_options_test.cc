#include "cli/serve_options.h"

#include <string>

#include "gtest/gtest.h"

namespace penstock {
namespace {

class CallOptionsTest : public testing::Test {
 protected:
  CallOptionsTest() {
    DeclareSettings(&options_, &table_);
    options_.model.path = "model";
  }
  // What `setting` says about `value`; empty when it takes it.
  std::string Complaint(const std::string& setting, const std::string& value) {
    absl::Status status = table_.Set(setting, value);
    if (status.ok()) status = options_.Complete();
    return std::string(status.message());
  }

  ServeOptions options_;
  SettingTable table_;
};

TEST_F(CallOptionsTest, TheBoundsOfCallsReachTheirParts) {
  for (const auto& [name, value] : {std::pair{"queue-timeout", "1.5"},
                                    {"queue-timeout-override", "false"},
                                    {"request-timeout", "20"},
                                    {"client-stall-timeout", "90"},
                                    {"max-unread", "77"},
                                    {"priority-ageing", "3"},
                                    {"max-queue", "5"},
                                    {"refuse-late", "true"},
                                    {"replicas", "3"}})
    EXPECT_EQ(Complaint(name, value), "") << name;
  const CallBounds& calls = options_.server.calls;
  EXPECT_EQ(calls.queue_timeout, absl::Milliseconds(1500));
  EXPECT_FALSE(calls.queue_timeout_override);
  EXPECT_EQ(calls.request_timeout, absl::Seconds(20));
  EXPECT_EQ(calls.client_stall, absl::Seconds(90));
  EXPECT_EQ(calls.max_unread_tokens, 77);
  EXPECT_EQ(options_.scheduler.max_unread_tokens, 77);  // one number for both sides of a stream
  EXPECT_EQ(options_.scheduler.ageing, absl::Seconds(3));
  EXPECT_EQ(options_.scheduler.max_queued, 5);
  EXPECT_TRUE(options_.refuse_late);
  EXPECT_EQ(options_.model.replicas, 3);
}

TEST_F(CallOptionsTest, WorkersAreCheckedBeforeAnythingIsLoaded) {
  EXPECT_EQ(Complaint("pipeline", "2"), "");
  for (const char* good : {"auto", "threads", "processes", "a:1,b:2", "a:1*2"})
    EXPECT_EQ(Complaint("workers", good), "") << good;
  for (const char* bad : {"", "thread", "threads ", "a:1", "a:1*3", "a:1,b:2,c:3", "a:1*2;b:1*2"})
    EXPECT_NE(Complaint("workers", bad).find("workers: "), std::string::npos) << bad;
  EXPECT_EQ(Complaint("workers", "a:1*2"), "");
  EXPECT_EQ(Complaint("spares", "c:3,d:4"), "");
  EXPECT_NE(Complaint("spares", "c"), "");
  EXPECT_EQ(Complaint("spares", "c:3"), "");
  EXPECT_EQ(Complaint("shard-token-file", "token"), "");
  EXPECT_NE(Complaint("workers", "processes").find("--spares"), std::string::npos);
  EXPECT_NE(Complaint("shard-silence", "0.9").find("--shard-silence"), std::string::npos);
  options_.workers = {};
  EXPECT_NE(Complaint("join-timeout", "0").find("--join-timeout"), std::string::npos);
  options_.workers = {};
  EXPECT_NE(Complaint("recovery-timeout", "0").find("--recovery-timeout"), std::string::npos);
}

TEST_F(CallOptionsTest, ImpossibleBoundsAreNamed) {
  EXPECT_NE(Complaint("client-stall-timeout", "0").find("client-stall-timeout"), std::string::npos);
  options_.server.calls = {};
  for (const auto& [name, value] : {std::pair{"queue-timeout", "-1"},
                                    {"queue-timeout", "nan"},
                                    {"request-timeout", "soon"},
                                    {"queue-timeout-override", "maybe"},
                                    {"max-unread", "0"},
                                    {"replicas", "0"},
                                    {"replicas", "65"}})
    EXPECT_NE(Complaint(name, value).find(name), std::string::npos) << name;
}

}  // namespace
}  // namespace penstock
