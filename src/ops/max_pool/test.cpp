// SPDX-License-Identifier: Apache-2.0
// Max pooling: worked examples and properties. (Every named and random problem is compared with the oracle by
// `backpass check`.)
#include "support.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace {

using support::dense;
using support::kNaN;
using support::run;
using support::values;

using Floats = std::vector<float>;

// ---- The vectors of the DirectML fact sheet ------------------------------------------------------------

TEST(DirectmlFacts, V7_1_MaxPooling2) {
  const auto problem =
      tools::parse_problem("max-pool --x-shape 1,1,3,3 --window 2 --strides 1 --winners flat --winners-dtype u32");
  const auto result = run(problem, BP_F32, {dense<float>(BP_F32, problem.x_shape, {1, 2, 3, 2, 4, 2, 5, 6, 7})});
  ASSERT_EQ(result.status, BP_OK) << result.error;
  EXPECT_EQ(values<float>(result.outputs[0]), (Floats{4, 4, 6, 7}));
  EXPECT_EQ(values<std::uint32_t>(result.outputs[1]), (std::vector<std::uint32_t>{4, 4, 7, 8}));
}

TEST(DirectmlFacts, V7_2_MaxPoolingGrad) {
  EXPECT_EQ(
      run<float>("max-pool-grad --x-shape 1,1,3,3 --window 2 --strides 1", {{1, 2, 3, 2, 4, 2, 5, 6, 7}, {1, 2, 4, 5}}),
      (Floats{0, 0, 0, 0, 3, 0, 0, 4, 5}));
}

const Floats kChecker{1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1};
const Floats kG9{11, 12, 13, 15, 16, 17, 19, 20, 21};
const Floats kG12 = support::count_from<float>(11, 12);
const Floats kG16 = support::count_from<float>(11, 16);

TEST(DirectmlFacts, V8_1_AllEqual) {
  EXPECT_EQ(run<float>("max-pool-grad --x-shape 1,1,4,4 --window 2 --strides 1", {Floats(16, 1), kG9}),
            (Floats{11, 12, 13, 0, 15, 16, 17, 0, 19, 20, 21, 0, 0, 0, 0, 0}));
}
TEST(DirectmlFacts, V8_2_Checker) {
  EXPECT_EQ(run<float>("max-pool-grad --x-shape 1,1,4,4 --window 2 --strides 1", {kChecker, kG9}),
            (Floats{11, 0, 25, 0, 0, 31, 0, 17, 19, 0, 41, 0, 0, 0, 0, 0}));
}
TEST(DirectmlFacts, V8_3_CheckerPaddedAround) {
  EXPECT_EQ(run<float>("max-pool-grad --x-shape 1,1,4,4 --window 3 --strides 1 --start-padding 1 --end-padding 1",
                       {kChecker, kG16}),
            (Floats{54, 0, 62, 0, 0, 60, 0, 22, 47, 0, 51, 0, 0, 0, 0, 0}));
}
TEST(DirectmlFacts, V8_4_CheckerPaddedAtTheEnd) {
  EXPECT_EQ(run<float>("max-pool-grad --x-shape 1,1,4,4 --window 2 --strides 1 --end-padding 0,1", {kChecker, kG12}),
            (Floats{11, 0, 25, 0, 0, 31, 0, 49, 19, 0, 41, 0, 0, 0, 0, 22}));
}
TEST(DirectmlFacts, V8_5_PaddingBeyondTheWindow) {
  EXPECT_EQ(run<float>("max-pool-grad --x-shape 1,1,4,4 --window 3 --strides 2 --start-padding 2 --end-padding 1",
                       {kChecker, kG9}),
            (Floats{54, 0, 30, 0, 0, 0, 0, 0, 39, 0, 21, 0, 0, 0, 0, 0}));
}
TEST(DirectmlFacts, V8_6_PaddingDoesNotBeatNegatives) {
  Floats x = kChecker;
  for (float& v : x) v = v == 1 ? -1.0f : -5.0f;
  EXPECT_EQ(run<float>("max-pool-grad --x-shape 1,1,4,4 --window 2 --strides 1 --end-padding 0,1", {x, kG12}),
            (Floats{11, 0, 25, 0, 0, 31, 0, 49, 19, 0, 41, 0, 0, 0, 0, 22}));
}
TEST(DirectmlFacts, V8_7_AllNaN) {
  EXPECT_EQ(run<float>("max-pool-grad --x-shape 1,1,4,4 --window 2 --strides 1", {Floats(16, kNaN), kG9}),
            (Floats{11, 12, 13, 0, 15, 16, 17, 0, 19, 20, 21, 0, 0, 0, 0, 0}));
}
TEST(DirectmlFacts, V8_7b_NaNGradients) {
  Floats dy = kG9;
  dy[0] = dy[4] = dy[8] = kNaN;
  const Floats dx = run<float>("max-pool-grad --x-shape 1,1,4,4 --window 2 --strides 1", {Floats(16, kNaN), dy});
  const Floats expected{kNaN, 12, 13, 0, 15, kNaN, 17, 0, 19, 20, kNaN, 0, 0, 0, 0, 0};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(std::isnan(expected[i]) ? std::isnan(dx[i]) : dx[i] == expected[i]) << i << ": " << dx[i];
  }
}
TEST(DirectmlFacts, V8_8a_ForwardNegative) {
  EXPECT_EQ(run<float>("max-pool --x-shape 1,1,3,3 --window 3 --strides 2 --start-padding 2 --end-padding 1",
                       {{-1, -2, -3, -4, -5, -6, -7, -8, -9}}),
            (Floats{-1, -1, -1, -1}));
}
TEST(DirectmlFacts, V8_8b_ForwardNegativeAsymmetric) {
  Floats x = support::count_from<float>(1, 36);
  for (float& v : x) v = -v;
  EXPECT_EQ(run<float>("max-pool --x-shape 1,1,6,6 --window 3 --strides 2 --start-padding 1,2 --end-padding 2,1", {x}),
            (Floats{-1, -1, -3, -5, -7, -7, -9, -11, -19, -19, -21, -23, -31, -31, -33, -35}));
}
TEST(DirectmlFacts, V8_8c_ForwardPositiveAsymmetric) {
  EXPECT_EQ(run<float>("max-pool --x-shape 1,1,6,6 --window 3 --strides 2 --start-padding 1,2 --end-padding 2,1",
                       {support::count_from<float>(1, 36)}),
            (Floats{7, 9, 11, 12, 19, 21, 23, 24, 31, 33, 35, 36, 31, 33, 35, 36}));
}
TEST(DirectmlFacts, V8_12_Dilated) {
  EXPECT_EQ(run<float>("max-pool --x-shape 1,1,4,5 --window 2 --strides 1 --dilations 2",
                       {{1, 3, 2, 4, -1, 5, 7, 6, 8, -2, 9, 11, 10, 12, -3, 13, 15, 14, 16, -4}}),
            (Floats{10, 12, 10, 14, 16, 14}));
  const auto problem = tools::parse_problem(
      "max-pool --x-shape 1,1,9 --window 2 --strides 1 --dilations 2 --start-padding 1 --end-padding 1 --winners flat");
  const auto result = run(problem, BP_F32, {dense<float>(BP_F32, problem.x_shape, {1, 9, 2, 8, 3, 7, 4, 6, 5})});
  EXPECT_EQ(values<float>(result.outputs[0]), (Floats{9, 2, 9, 3, 8, 4, 7, 5, 6}));
  EXPECT_EQ(values<std::int64_t>(result.outputs[1]), (std::vector<std::int64_t>{1, 2, 1, 4, 3, 6, 5, 8, 7}));
  EXPECT_EQ(
      run<float>("max-pool --x-shape 1,1,12 --window 3 --strides 1 --dilations 3 --start-padding 1 --end-padding 1",
                 {{1, 3, 2, 4, -1, -3, -2, -4, -6, -5, -4, -2}}),
      (Floats{2, 4, 3, 2, 4, -1, -2, -2}));
}

// ---- The rules of the contract, one by one -------------------------------------------------------------

TEST(MaxPool, NaNIsGreatestAndTheFirstOneWins) {
  const auto problem = tools::parse_problem("max-pool --x-shape 1,1,4 --window 4 --winners compact");
  const std::vector<std::uint32_t> x{0x7f800000u, 0x7fc00001u, 0xffc00002u, 0x3f800000u};
  const auto result = run(problem, BP_F32, {dense(BP_F32, problem.x_shape, x)});
  EXPECT_EQ(result.outputs[0].bits[0], 0x7fc00001u) << "all bits of the first NaN";
  EXPECT_EQ(result.outputs[1].bits[0], 1u);
}

TEST(MaxPool, ZerosOfBothSignsAreEqualAndTheFirstKeepsItsSign) {
  EXPECT_TRUE(std::signbit(run<float>("max-pool --x-shape 1,1,2 --window 2", {{-0.0f, 0.0f}})[0]));
  EXPECT_FALSE(std::signbit(run<float>("max-pool --x-shape 1,1,2 --window 2", {{0.0f, -0.0f}})[0]));
}

TEST(MaxPool, AWindowOfMinusInfinityHasAWinner) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(run<float>("max-pool-grad --x-shape 1,1,2 --window 3 --strides 1 --start-padding 1", {{-inf, -inf}, {5}}),
            (Floats{5, 0}));
}

TEST(MaxPool, AWindowWithoutTapsGivesTheLowestValueAndNoWinner) {
  const std::string line =
      "max-pool --x-shape 1,1,2 --y-shape 1,1,2 --window 2 --strides 2 --start-padding 2 --winners compact";
  const auto problem = tools::parse_problem(line);
  const auto floats = run(problem, BP_F32, {dense<float>(BP_F32, problem.x_shape, {3, 4})});
  EXPECT_EQ(values<float>(floats.outputs[0]), (Floats{-std::numeric_limits<float>::infinity(), 4}));
  EXPECT_EQ(values<std::uint8_t>(floats.outputs[1]), (std::vector<std::uint8_t>{255, 1}));
  const auto ints = run(problem, BP_I16, {dense<std::int16_t>(BP_I16, problem.x_shape, {3, 4})});
  EXPECT_EQ(values<std::int16_t>(ints.outputs[0]), (std::vector<std::int16_t>{-32768, 4}));
  EXPECT_EQ(run<float>("max-pool-grad --x-shape 1,1,2 --y-shape 1,1,2 --window 2 --strides 2 --start-padding 2",
                       {{3, 4}, {7, 9}}),
            (Floats{0, 9}));
}

TEST(MaxPool, HalfTypesSumInF32AndRoundOnce) {
  // 2048 + 1 + 1 in f16: rounding after every addition would stay at 2048.
  constexpr std::uint16_t k2048 = 0x6800, k1 = 0x3c00, k2050 = 0x6801;
  const std::string line = "max-pool-grad --x-shape 1,1,3 --window 1 --strides 1 --winners flat --y-shape 1,1,3";
  auto problem = tools::parse_problem(line);
  problem.window = {3};
  problem.start_padding = problem.end_padding = {2};
  problem.y_shape = {1, 1, 3};
  const auto result = run(problem, BP_F16,
                          {{},
                           dense<std::uint16_t>(BP_F16, {1, 1, 3}, {k2048, k1, k1}),
                           dense<std::int64_t>(BP_I64, {1, 1, 3}, {0, 0, 0})});
  ASSERT_EQ(result.status, BP_OK) << result.error;
  EXPECT_EQ(values<std::uint16_t>(result.outputs[0]), (std::vector<std::uint16_t>{k2050, 0, 0}));
}

TEST(MaxPool, SumsNeverGiveMinusZero) {
  EXPECT_EQ(support::bits(run<float>("max-pool-grad --x-shape 1,1,4 --window 2", {{1, 0, 1, 0}, {-0.0f, -0.0f}})),
            support::bits(Floats{0, 0, 0, 0}));
}

// ---- Properties ----------------------------------------------------------------------------------------

const char* const kGeometries[] = {
    "--x-shape 2,3,9,11 --window 3 --strides 2 --start-padding 1 --end-padding 1",
    "--x-shape 1,2,8,8 --window 2",
    "--x-shape 2,2,7,9 --window 5 --strides 1 --start-padding 2 --end-padding 2",
    "--x-shape 1,2,9,10 --window 3 --strides 1 --dilations 2,3",
    "--x-shape 1,2,5,6,7 --window 2,3,2 --strides 2,1,2 --end-padding 1",
    "--x-shape 2,3,31 --window 4 --strides 3 --start-padding 3",
    "--x-shape 1,2,3,3 --window 2 --strides 1 --start-padding 4 --end-padding 4",
};

class PoolProperty : public testing::TestWithParam<std::tuple<const char*, std::int32_t>> {
 protected:
  PoolProperty() {
    const auto [geometry, dtype] = GetParam();
    dtype_ = dtype;
    recompute_ = tools::parse_problem(std::string("max-pool-grad ") + geometry);
    const tools::Tensors specs = tools::tensors(recompute_, dtype_);
    x_ = tools::random_values(specs.inputs[0], tools::Fill::mixed, 11, 1);
    dy_ = tools::random_values(specs.inputs[1], tools::Fill::reals, 11, 2);
  }
  [[nodiscard]] tools::Problem forward(std::int32_t kind) const {
    tools::Problem problem = recompute_;
    problem.kind = BP_MAX_POOL;
    problem.winners = kind;
    return problem;
  }
  std::int32_t dtype_ = 0;
  tools::Problem recompute_;
  tools::Dense x_, dy_;
};

TEST_P(PoolProperty, RecomputedCompactAndFlatWinnersGiveEqualBits) {
  const auto expected = run(recompute_, dtype_, {x_, dy_, {}});
  ASSERT_EQ(expected.status, BP_OK) << expected.error;
  for (const std::int32_t kind : {BP_WINNERS_COMPACT, BP_WINNERS_FLAT}) {
    const tools::Dense winners = run(forward(kind), dtype_, {x_}).outputs.at(1);
    tools::Problem stored = recompute_;
    stored.winners = kind;
    const auto result = run(stored, dtype_, {{}, dy_, winners});
    ASSERT_EQ(result.status, BP_OK) << result.error;
    EXPECT_EQ(result.outputs[0].bits, expected.outputs[0].bits) << "winners kind " << kind;
  }
}

TEST_P(PoolProperty, ConvertersGoRound) {
  const tools::Dense compact = run(forward(BP_WINNERS_COMPACT), dtype_, {x_}).outputs.at(1);
  const auto convert = [&](const tools::Dense& from, std::int32_t from_kind, std::int32_t to_kind) {
    tools::Problem problem = recompute_;
    problem.kind = BP_CONVERT_WINNERS;
    problem.winners_from = from_kind;
    problem.winners = to_kind;
    const auto result = run(problem, from.dtype, {from});
    EXPECT_EQ(result.status, BP_OK) << result.error;
    return result.outputs.at(0);
  };
  const tools::Dense flat = convert(compact, BP_WINNERS_COMPACT, BP_WINNERS_FLAT);
  EXPECT_EQ(flat.bits, run(forward(BP_WINNERS_FLAT), dtype_, {x_}).outputs.at(1).bits);
  const tools::Dense plane = convert(flat, BP_WINNERS_FLAT, BP_WINNERS_PLANE);
  EXPECT_EQ(convert(plane, BP_WINNERS_PLANE, BP_WINNERS_COMPACT).bits, compact.bits);
}

TEST_P(PoolProperty, ChannelsLastGivesTheBitsOfPacked) {
  tools::Problem nhwc = recompute_;
  nhwc.nhwc = true;
  EXPECT_EQ(run(nhwc, dtype_, {x_, dy_, {}}).outputs[0].bits, run(recompute_, dtype_, {x_, dy_, {}}).outputs[0].bits);
}

INSTANTIATE_TEST_SUITE_P(Geometries, PoolProperty,
                         testing::Combine(testing::ValuesIn(kGeometries),
                                          testing::Values(BP_F64, BP_F32, BP_F16, BP_BF16)));

// Given its winners, pooling is linear: <dy, P v> = <P^T dy, v>, where P v takes v at the winners. In small integers
// both sides are exact.
TEST(MaxPool, IsAdjointGivenItsWinners) {
  for (const char* geometry : kGeometries) {
    const auto grad = tools::parse_problem(std::string("max-pool-grad ") + geometry);
    const tools::Tensors specs = tools::tensors(grad, BP_F64);
    const auto x = tools::random_values(specs.inputs[0], tools::Fill::integers, 5, 1);
    const auto dy = tools::random_values(specs.inputs[1], tools::Fill::integers, 5, 2);
    const auto v = values<double>(tools::random_values(specs.inputs[0], tools::Fill::integers, 5, 3));
    const auto dx = values<double>(run(grad, BP_F64, {x, dy, {}}).outputs[0]);
    tools::Problem forward = grad;
    forward.kind = BP_MAX_POOL;
    forward.winners = BP_WINNERS_FLAT;
    const auto winners = values<std::int64_t>(run(forward, BP_F64, {x}).outputs[1]);
    double left = 0;
    double right = 0;
    const auto gradients = values<double>(dy);
    for (std::size_t o = 0; o < winners.size(); ++o) {
      if (winners[o] >= 0) left += gradients[o] * v[static_cast<std::size_t>(winners[o])];
    }
    for (std::size_t i = 0; i < v.size(); ++i) right += dx[i] * v[i];
    EXPECT_EQ(left, right) << geometry;
  }
}

// With distinct values a small step moves no winner, so the central difference of <dy, max_pool(x)> is exact in
// multiples of the step.
TEST(MaxPool, AgreesWithFiniteDifferences) {
  for (const char* geometry : kGeometries) {
    const auto grad = tools::parse_problem(std::string("max-pool-grad ") + geometry);
    tools::Problem forward = grad;
    forward.kind = BP_MAX_POOL;
    const auto n = static_cast<std::size_t>(tools::element_count(grad.x_shape));
    std::vector<double> x = support::count_from<double>(1, n);
    std::mt19937 random(3);
    std::shuffle(x.begin(), x.end(), random);
    const auto dy = tools::random_values(tools::tensors(grad, BP_F64).inputs[1], tools::Fill::integers, 9, 2);
    const auto gradients = values<double>(dy);
    const auto loss = [&](const std::vector<double>& at) {
      const auto y = values<double>(run(forward, BP_F64, {dense(BP_F64, grad.x_shape, at)}).outputs[0]);
      double sum = 0;
      for (std::size_t o = 0; o < y.size(); ++o) sum += std::isinf(y[o]) ? 0 : gradients[o] * y[o];
      return sum;
    };
    const auto dx = values<double>(run(grad, BP_F64, {dense(BP_F64, grad.x_shape, x), dy, {}}).outputs[0]);
    for (std::size_t i = 0; i < n; i += 7) {
      constexpr double kStep = 0.25;
      std::vector<double> up = x, down = x;
      up[i] += kStep;
      down[i] -= kStep;
      EXPECT_EQ((loss(up) - loss(down)) / (2 * kStep), dx[i]) << geometry << " at " << i;
    }
  }
}

}  // namespace
