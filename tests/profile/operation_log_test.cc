#include "shard/profile/operation_log.h"

#include "gtest/gtest.h"

namespace penstock {
namespace {

TEST(OperationLogTest, SumsCallsOfOneShapeInTheOrderOfFirstCalls) {
  OperationLog log;
  log.Add({.name = "MatMul",
           .kind = OperationKind::kProduct,
           .inputs = 4,
           .outputs = 8,
           .bytes = 10,
           .flops = 100},
          0.5);
  log.Add({.name = "Add", .bytes = 3}, 0.125);
  log.Add({.name = "MatMul", .kind = OperationKind::kProduct, .inputs = 8, .outputs = 4}, 1);
  log.Add({.name = "MatMul", .inputs = 4, .outputs = 8, .bytes = 1, .flops = 2}, 0.25);
  const auto& operations = log.operations();
  ASSERT_EQ(operations.size(), 3u);
  EXPECT_EQ(operations[0].name, "MatMul 4x8");
  EXPECT_EQ(operations[0].kind, OperationKind::kProduct);
  EXPECT_EQ(operations[0].calls, 2);
  EXPECT_EQ(operations[0].seconds, 0.75);
  EXPECT_EQ(operations[0].bytes, 11);
  EXPECT_EQ(operations[0].flops, 102);
  EXPECT_EQ(operations[1].name, "Add");
  EXPECT_EQ(operations[1].calls, 1);
  EXPECT_EQ(operations[2].name, "MatMul 8x4");
  log.Clear();
  EXPECT_TRUE(log.operations().empty());
  log.Add({.name = "Add"}, 1);
  ASSERT_EQ(log.operations().size(), 1u);
  EXPECT_EQ(log.operations()[0].calls, 1);
}

}  // namespace
}  // namespace penstock
