// SPDX-License-Identifier: Apache-2.0
// backpass.hpp: an operator's life, from its making and moving to its runs, and its options.
#include "cpp_api_support.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace cpp_api {
namespace {

TEST(CppOperator, MovesButDoesNotCopy) {
  static_assert(!std::is_copy_constructible_v<Operator> && !std::is_copy_assignable_v<Operator>);
  static_assert(std::is_nothrow_move_constructible_v<Operator> && std::is_nothrow_move_assignable_v<Operator>);
  Operator first(pool_grad());
  const bp_operator* handle = first.handle();
  std::vector<Operator> many;
  many.push_back(std::move(first));
  many.emplace_back(Relu{.x = {.sizes = {2}}, .y = {.sizes = {2}}});
  EXPECT_EQ(many[0].handle(), handle);
  std::swap(many[0], many[1]);
  EXPECT_EQ(many[1].handle(), handle);
  Floats dx = unwritten(9);
  many[1].run({kX.data(), kDy.data()}, {dx.data()}, workspace_for(many[1]).data());
  EXPECT_EQ(dx, kDx);
}

TEST(CppOperator, AdoptsWhatCMade) {
  const std::int64_t sizes[] = {2};
  const bp_tensor_desc tensor{sizeof tensor, BP_F32, 1, sizes, nullptr};
  const bp_relu_desc desc{sizeof desc, &tensor, &tensor};
  bp_operator* created = nullptr;
  ASSERT_EQ(bp_operator_create(BP_RELU, &desc, backpass::Device::cpu(), nullptr, &created), BP_OK);
  const Operator op = Operator::adopt(created);
  EXPECT_EQ(op.handle(), created);
  Floats x{-1, 2};
  op.run({x.data()}, {x.data()}, workspace_for(op).data());
  EXPECT_EQ(x, (Floats{0, 2}));
  EXPECT_EQ(thrown([] { [[maybe_unused]] const Operator none = Operator::adopt(nullptr); }),
            invalid("operator: is null, expected a created one"));
}

TEST(CppOperator, RunsOnSpansOfPointers) {
  const Operator op(pool_grad());
  Floats dx = unwritten(9);
  const std::vector<const void*> inputs{kX.data(), kDy.data()};
  const std::array<void*, 1> outputs{dx.data()};
  op.run(inputs, outputs, workspace_for(op).data());
  EXPECT_EQ(dx, kDx);
}

TEST(CppOperator, RunsAgainOnOtherData) {
  const Operator op(Relu{.x = {.sizes = {2}}, .y = {.sizes = {2}}});
  const Floats first{1, -1}, second{-2, 2};
  Floats y = unwritten(2);
  op.run({first.data()}, {y.data()}, workspace_for(op).data());
  EXPECT_EQ(y, (Floats{1, 0}));
  op.run({second.data()}, {y.data()}, workspace_for(op).data());
  EXPECT_EQ(y, (Floats{0, 2}));
}

TEST(CppOperator, TellsItsBytesAndWorkspace) {
  const Operator op(pool_grad());
  EXPECT_EQ(op.bytes(), (9 + 4 + 9) * sizeof(float));
  std::size_t workspace = 0;
  ASSERT_EQ(bp_operator_workspace_size(op.handle(), &workspace), BP_OK);
  EXPECT_EQ(op.workspace_size(), workspace);
}

TEST(CppOperator, ExplainsItsPlanWithoutAClosingZero) {
  const Operator op(pool_grad());
  const std::string text = op.explain();
  EXPECT_EQ(text.find("problem: max-pool-grad --dtype f32 --x-shape 1,1,3,3 --y-shape 1,1,2,2 --window 2,2"), 0u)
      << text;
  EXPECT_NE(text.find(std::string("\nimplementation: ") + op.implementation()), std::string::npos) << text;
  EXPECT_NE(text.find("\nbytes: 88"), std::string::npos) << text;
  EXPECT_EQ(text.find('\0'), std::string::npos);
}

TEST(CppOperator, CheckOnTheCpuHasNothingToReport) {
  const Operator op(pool_grad());
  auto workspace = workspace_for(op);
  Floats dx = unwritten(9);
  op.run({kX.data(), kDy.data()}, {dx.data()}, workspace.data());
  EXPECT_NO_THROW(op.check(workspace.data()));
}

TEST(CppOptions, AnImplementationCanBeForced) {
  const Operator op(pool_grad(), backpass::Device::cpu(), {.implementation = "reference"});
  EXPECT_STREQ(op.implementation(), "reference");
  Floats dx = unwritten(9);
  op.run({kX.data(), kDy.data()}, {dx.data()}, workspace_for(op).data());
  EXPECT_EQ(dx, kDx);
}

TEST(CppOptions, AnUnknownImplementationIsUnsupported) {
  const Thrown error = thrown([] { Operator(pool_grad(), backpass::Device::cpu(), {.implementation = "quickest"}); });
  EXPECT_EQ(error.code, Status::unsupported);
  EXPECT_EQ(error.text.find("max_pool_grad: implementation: 'quickest' is not among those for cpu, expected one of "),
            0u)
      << error.text;
}

TEST(CppOptions, ADeviceThatIsNotThereIsUnsupported) {
  EXPECT_EQ(thrown([] { Operator(pool_grad(), backpass::Device::cuda(1000)); }).code, Status::unsupported);
}

TEST(CppOptions, TheThreadCountReachesTheLibrary) {
  EXPECT_EQ(thrown([] { Operator(pool_grad(), backpass::Device::cpu(), {.threads = -1}); }).code,
            Status::invalid_argument);
}

// Backwards, so that nothing can lean on an order.
void count_and_run(void* context, std::int64_t count, void (*task)(void* data, std::int64_t index), void* data) {
  ++*static_cast<int*>(context);
  for (std::int64_t i = count; i-- > 0;) task(data, i);
}

TEST(CppOptions, ThreadsAndTheCallersPoolChangeNoBit) {
  constexpr std::size_t kCount = 1 << 18;  // work for several threads
  Floats x(kCount), expected(kCount, 0.0f);
  for (std::size_t i = 0; i < kCount; ++i) x[i] = i % 3 == 0 ? static_cast<float>(i) : -1.0f;
  for (std::size_t i = 0; i < kCount; i += 3) expected[i] = static_cast<float>(i);
  int calls = 0;
  for (const backpass::Options& options :
       {backpass::Options{.threads = 1}, backpass::Options{.threads = 3},
        backpass::Options{.threads = 3, .parallel_for = count_and_run, .parallel_for_context = &calls}}) {
    EXPECT_EQ(calls, 0);
    const TensorDesc desc{.sizes = {kCount}};
    const Operator op(Relu{.x = desc, .y = desc}, backpass::Device::cpu(), options);
    Floats y = unwritten(kCount);
    op.run({x.data()}, {y.data()}, workspace_for(op).data());
    EXPECT_TRUE(y == expected);
  }
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace cpp_api
