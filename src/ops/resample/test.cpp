// SPDX-License-Identifier: Apache-2.0
// Resample: worked examples and properties.
#include "ops/resample/geometry.h"
#include "support.h"

#include <cmath>

namespace {

using support::run;
using support::values;
using Floats = std::vector<float>;

// ---- The vectors of the DirectML fact sheet ------------------------------------------------------------

// Scale 1.5 in width, 0.5 in height, in every set of parameters that satisfies the document.
const char* const kDocument[] = {
    "--scales 0.5,1.5 --mode nearest --rounding decreasing --input-offsets 0.5 --output-offsets -0.5",
    "--scales 0.5,1.5 --mode nearest --rounding decreasing --input-offsets 0 --output-offsets 0",
    "--scales 0.5,1.5 --mode nearest --rounding half-up --input-offsets 0.5 --output-offsets 0",
};
TEST(DirectmlFacts, V7_8_ResampleNearest) {
  for (const char* map : kDocument) {
    EXPECT_EQ(run<float>(std::string("resample --x-shape 2,2 --y-shape 1,3 ") + map, {{1, 2, 3, 4}}), (Floats{1, 1, 2}))
        << map;
  }
}
TEST(DirectmlFacts, V7_9_ResampleGrad) {
  for (const char* map : kDocument) {
    EXPECT_EQ(run<float>(std::string("resample-grad --x-shape 2,2 --y-shape 1,3 ") + map, {{4, 5, 6}}),
              (Floats{9, 6, 0, 0}))
        << map;
  }
}
TEST(DirectmlFacts, V6_1_OffsetsMeanWhatTheyMeanInTheForwardOperator) {
  const std::string line = "resample-grad --x-shape 2 --y-shape 4 --scales 2";
  EXPECT_EQ(run<float>(line + " --input-offsets 0.5 --output-offsets -0.5", {{1, 2, 3, 4}}), (Floats{3.25, 6.75}));
  // The other reading, reached by exchanging the two.
  EXPECT_EQ(run<float>(line + " --input-offsets -0.5 --output-offsets 0.5", {{1, 2, 3, 4}}), (Floats{1.25, 8.75}));
}
TEST(DirectmlFacts, V6_9_HalfUpWithCentersIsNotTheDocumentsExample) {
  EXPECT_EQ(run<float>("resample --x-shape 2,2 --y-shape 1,3 --mode nearest --scales 0.5,1.5", {{1, 2, 3, 4}}),
            (Floats{3, 4, 4}));
}
TEST(DirectmlFacts, V8_9_NearestDownscale) {
  EXPECT_EQ(run<float>("resample --x-shape 4,6 --y-shape 2,3 --mode nearest --scales 0.5",
                       {support::count_from<float>(0, 24)}),
            (Floats{7, 9, 11, 19, 21, 23}));
}
TEST(DirectmlFacts, V8_10_LinearCentersTwice) {
  Floats x;
  for (const float row : {0.0f, 0.0f, 12.0f, 12.0f}) {
    for (const float column : {0.0f, 1.0f, 2.0f, 3.0f}) x.push_back(row + column);
  }
  Floats expected;
  for (const float row : {0.0f, 0.0f, 0.0f, 3.0f, 9.0f, 12.0f, 12.0f, 12.0f}) {
    for (const float column : {0.0f, 0.25f, 0.75f, 1.25f, 1.75f, 2.25f, 2.75f, 3.0f}) expected.push_back(row + column);
  }
  EXPECT_EQ(run<float>("resample --x-shape 4,4 --y-shape 8,8", {x}), expected);
  EXPECT_EQ(run<float>("resample --x-shape 4,4 --scales 2", {x}), expected);
}
TEST(DirectmlFacts, V8_11_LinearCentersTwice) {
  EXPECT_EQ(run<float>("resample --x-shape 2,2 --y-shape 4,4", {{1, 2, 3, 4}}),
            (Floats{1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4}));
}

// ---- RESAMPLE_GRAD1 and RESAMPLE_GRAD, as their equivalence really holds --------------------------------

tools::Dense gradient(const tools::Problem& problem) {
  const auto dy = tools::random_values(tools::tensors(problem, BP_F32).inputs[0], tools::Fill::reals, 6, 1);
  const auto result = run(problem, BP_F32, {dy});
  EXPECT_EQ(result.status, BP_OK) << result.error;
  return result.outputs.at(0);
}

class Equivalence : public testing::TestWithParam<double> {
 protected:
  [[nodiscard]] tools::Problem problem() const {
    tools::Problem p = tools::parse_problem(
        "resample-grad --x-shape 2,7,9 --y-shape 2,11,6 --scales 1 --input-offsets 0.5 --output-offsets -0.5");
    p.scales = {1, GetParam(), GetParam() * 2};
    return p;
  }
};

TEST_P(Equivalence, LinearIgnoresTheRounding) {
  tools::Problem p = problem();
  p.mode = BP_LINEAR;
  p.rounding = BP_ROUND_HALF_UP;
  const auto old = gradient(p);
  p.rounding = BP_ROUND_DECREASING;
  EXPECT_EQ(gradient(p).bits, old.bits);
  p.rounding = BP_ROUND_INCREASING;
  EXPECT_EQ(gradient(p).bits, old.bits);
}

TEST_P(Equivalence, NearestHalfUpIsDecreasingWithTheInputOffsetLoweredByHalf) {
  tools::Problem p = problem();
  p.mode = BP_NEAREST;
  p.rounding = BP_ROUND_HALF_UP;
  const auto old = gradient(p);
  p.rounding = BP_ROUND_DECREASING;
  for (double& offset : p.input_offsets) offset -= 0.5;
  EXPECT_EQ(gradient(p).bits, old.bits);
}

INSTANTIATE_TEST_SUITE_P(Scales, Equivalence, testing::Values(0.25, 0.5, 1.0, 2.0, 4.0));

// The documents' remark lowers the *output* offset instead, which raises c by 0.5 / scale: right at scale 1 alone. (At
// 2 and 0.5 the centers happen to round the same way.)
TEST(ResampleGrad, LoweringTheOutputOffsetByHalfIsNotHalfUp) {
  for (const double scale : {0.25, 1.0, 3.0, 4.0}) {
    tools::Problem p = tools::parse_problem(
        "resample-grad --x-shape 40 --y-shape 37 --mode nearest --scales 1 --input-offsets 0.5 --output-offsets -0.5");
    p.scales = {scale};
    const auto old = gradient(p);
    p.rounding = BP_ROUND_DECREASING;
    p.output_offsets[0] -= 0.5;
    EXPECT_EQ(gradient(p).bits == old.bits, scale == 1.0) << scale;
  }
}

// ---- The rules of the contract -------------------------------------------------------------------------

TEST(Resample, NearestMovesEveryBit) {
  const auto problem = tools::parse_problem("resample --x-shape 2 --y-shape 4 --mode nearest");
  const auto x = support::dense<std::uint32_t>(BP_F32, {2}, {0x7f800001u, 0x80000000u});
  EXPECT_EQ(run(problem, BP_F32, {x}).outputs[0].bits,
            (std::vector<std::uint64_t>{0x7f800001u, 0x7f800001u, 0x80000000u, 0x80000000u}));
}

TEST(Resample, AnAxisLeftAloneIsMovementInLinearToo) {
  const auto problem = tools::parse_problem("resample --x-shape 1,2 --y-shape 1,2");
  const auto x = support::dense<std::uint32_t>(BP_F32, {1, 2}, {0xffc54321u, 0x80000000u});
  EXPECT_EQ(run(problem, BP_F32, {x}).outputs[0].bits, x.bits);
}

TEST(ResampleGrad, AnAxisLeftAloneAddsToPlusZero) {
  EXPECT_EQ(support::bits(run<float>("resample-grad --x-shape 2 --y-shape 2", {{-0.0f, -1.0f}})),
            support::bits(Floats{0, -1}));
}

TEST(Resample, ATapOfWeightZeroDoesNotExist) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(run<float>("resample --x-shape 3 --y-shape 2 --convention asymmetric --scales 0.5", {{1, inf, 3}}),
            (Floats{1, 3}));
  EXPECT_EQ(run<float>("resample --x-shape 2 --y-shape 2 --table 0=0:1:0,0:0:1", {{inf, 2}}), (Floats{inf, 2}));
}

TEST(Resample, AlignCornersOfOneElementReadsTheFirst) {
  EXPECT_EQ(run<float>("resample --x-shape 4 --y-shape 1 --convention align-corners", {{5, 6, 7, 8}}), (Floats{5}));
  EXPECT_EQ(run<float>("resample --x-shape 1 --y-shape 3 --convention align-corners", {{5}}), (Floats{5, 5, 5}));
}

TEST(Resample, BytesRoundToNearestEvenAndSaturate) {
  EXPECT_EQ(run<std::uint8_t>("resample --x-shape 2 --y-shape 3 --table 0=0:0.5:0.5,0:1:1,0:-1", {{1, 254}}),
            (std::vector<std::uint8_t>{128, 255, 0}));
  EXPECT_EQ(run<std::uint8_t>("resample --x-shape 2 --y-shape 2 --table 0=0:0.5,1:0.5", {{1, 3}}),
            (std::vector<std::uint8_t>{0, 2}));
  EXPECT_EQ(run<std::int8_t>("resample --x-shape 2 --y-shape 2 --table 0=0:1:1,0:-2", {{100, 100}}),
            (std::vector<std::int8_t>{127, -128}));
}

TEST(ResampleGrad, LongSumsAreTakenInBlocksOf128) {
  // 2^24 + 1 = 2^24 in f32: a running sum of ones after 2^24 would not move, block sums of 128 do.
  Floats dy(256, 1.0f);
  dy[0] = 16777216.0f;
  const Floats dx = run<float>("resample-grad --x-shape 1 --y-shape 256 --mode nearest", {dy});
  EXPECT_EQ(dx[0], 16777216.0f + 128.0f);
}

TEST(ResampleGrad, HalfTypesMayRoundToMinusZero) {
  // The accumulator is -2^-26, whose one rounding to f16 keeps its sign.
  const auto problem = tools::parse_problem("resample-grad --x-shape 2 --y-shape 4");
  const auto dy = support::dense<std::uint16_t>(BP_F16, {4}, {0, 0, 0x8001, 0});
  EXPECT_EQ(run(problem, BP_F16, {dy}).outputs[0].bits, (std::vector<std::uint64_t>{0x8000, 0x8001}));
}

TEST(Resample, ConventionsAreExactWhereF64IsNot) {
  // c = (2o+1) * 3 / (2 * 7) - 1/2 at o = 3 is exactly 1; through a rounded scale 7/3 it is not.
  const auto line = "resample --x-shape 3 --y-shape 7 --mode nearest --rounding increasing";
  EXPECT_EQ(run<float>(line, {{0, 1, 2}})[3], 1.0f);
}

// A ratio just above a tie of f32, and just below one, by less than f64 or a 61-bit quotient could tell.
TEST(Resample, ExactWeightsAreRoundedOnce) {
  int ties = 0;
  for (std::uint64_t denominator = (std::uint64_t{1} << 40) + 1; ties < 100; denominator += 2) {
    // m * denominator = -1 (mod 2^25), so that numerator / denominator = m / 2^25 + 1 / (denominator * 2^25).
    std::uint64_t inverse = 1;
    for (int i = 0; i < 6; ++i) inverse *= 2 - denominator * inverse;
    const std::uint64_t m = (0 - inverse) & ((1u << 25) - 1);
    if (m < (1u << 24) || m % 4 != 1) continue;  // 25 bits, and the even neighbour is the lower one
    ++ties;
    const auto wide = bp::UInt128{m} * denominator + 1;
    const auto numerator = static_cast<std::uint64_t>(wide >> 25);
    EXPECT_EQ(bp::round_ratio(bp::Accumulator::f32, numerator, denominator), static_cast<double>(m + 1) * 0x1p-25);
    EXPECT_EQ(bp::round_ratio(bp::Accumulator::f32, denominator - numerator, denominator),
              static_cast<double>((1u << 25) - m) * 0x1p-25);
  }
  EXPECT_EQ(bp::round_ratio(bp::Accumulator::f64, 1, 3), 1.0 / 3.0);
  EXPECT_EQ(bp::round_ratio(bp::Accumulator::f32, 1, 3), static_cast<double>(1.0f / 3.0f));
  EXPECT_EQ(bp::round_ratio(bp::Accumulator::f32, 7, 7), 1.0);
  EXPECT_EQ(bp::round_ratio(bp::Accumulator::f32, 0, 7), 0.0);
}

TEST(Resample, ATableSpeaksForOtherConventions) {
  // Area averaging 4 -> 2, and its adjoint.
  EXPECT_EQ(run<float>("resample --x-shape 4 --y-shape 2 --table 0=0:0.5:0.5,2:0.5:0.5", {{1, 3, 5, 9}}),
            (Floats{2, 7}));
  EXPECT_EQ(run<float>("resample-grad --x-shape 4 --y-shape 2 --table 0=0:0.5:0.5,2:0.5:0.5", {{2, 6}}),
            (Floats{1, 1, 3, 3}));
}

// ---- Properties ----------------------------------------------------------------------------------------

struct Pair {
  tools::Dense x, dy;
  double left = 0, right = 0;  // <dy, F x> and <F^T dy, x>
};

Pair inner_products(const std::string& options, tools::Fill fill) {
  const auto forward = tools::parse_problem("resample " + options);
  const auto grad = tools::parse_problem("resample-grad " + options);
  Pair pair{tools::random_values(tools::tensors(forward, BP_F64).inputs[0], fill, 3, 1),
            tools::random_values(tools::tensors(grad, BP_F64).inputs[0], fill, 3, 2)};
  const auto y = values<double>(run(forward, BP_F64, {pair.x}).outputs[0]);
  const auto dx = values<double>(run(grad, BP_F64, {pair.dy}).outputs[0]);
  const auto x = values<double>(pair.x);
  const auto dy = values<double>(pair.dy);
  for (std::size_t i = 0; i < y.size(); ++i) pair.left += dy[i] * y[i];
  for (std::size_t i = 0; i < dx.size(); ++i) pair.right += dx[i] * x[i];
  return pair;
}

TEST(ResampleGrad, IsTheExactAdjointForDyadicScales) {
  for (const char* options :
       {"--x-shape 2,3,5,7 --y-shape 2,3,10,14", "--x-shape 2,8,12 --y-shape 2,4,6", "--x-shape 3,5 --y-shape 12,20",
        "--x-shape 2,3,5,7 --y-shape 2,3,10,14 --mode nearest",
        "--x-shape 6,9 --y-shape 5,20 --scales 0.5,2 --input-offsets 0.25,1 --output-offsets -1,0.5",
        "--x-shape 6,9 --y-shape 7,5 --scales 4,0.25 --mode nearest --rounding increasing",
        "--x-shape 5 --y-shape 9 --convention align-corners",
        "--x-shape 7,5 --y-shape 11,13 --mode nearest --rounding decreasing --convention asymmetric",
        "--x-shape 2,3,2,3 --y-shape 4,6,4,12", "--x-shape 4 --y-shape 5 --scales 1.25 --mode nearest",
        "--x-shape 4 --y-shape 3 --table 0=2:0.25:0.75,0:1:-1:0.5,4"}) {
    const Pair pair = inner_products(options, tools::Fill::integers);
    EXPECT_EQ(pair.left, pair.right) << options;
    EXPECT_NE(pair.left, 0) << options;
  }
}

TEST(ResampleGrad, IsTheAdjointUpToRoundingForAnyScale) {
  for (const char* options :
       {"--x-shape 3,17 --y-shape 3,40", "--x-shape 13,17 --y-shape 9,40 --convention align-corners",
        "--x-shape 20,30 --y-shape 17,100 --scales 0.77,3.21 --input-offsets 0.3 --output-offsets -0.2"}) {
    const Pair pair = inner_products(options, tools::Fill::integers);
    EXPECT_NEAR(pair.left, pair.right, 1e-11 * std::max(1.0, std::abs(pair.left))) << options;
  }
}

TEST(ResampleGrad, AgreesWithFiniteDifferences) {
  const std::string options = "--x-shape 4,5 --y-shape 7,3 --scales 1.7,0.63 --input-offsets 0.4 --output-offsets -0.3";
  const auto forward = "resample " + options;
  const std::vector<double> x = support::count_from<double>(1, 20);
  const std::vector<double> dy = support::count_from<double>(-10, 21);
  const auto dx = run<double>("resample-grad " + options, {dy});
  const auto loss = [&](const std::vector<double>& at) {
    const auto y = run<double>(forward, {at});
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
    return sum;
  };
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::vector<double> up = x, down = x;
    up[i] += 0.5;
    down[i] -= 0.5;
    EXPECT_NEAR(dx[i], loss(up) - loss(down), 1e-10) << i;
  }
}

TEST(Resample, ChannelsLastGivesTheBitsOfPacked) {
  for (const char* op : {"resample", "resample-grad"}) {
    for (const char* map : {"", " --mode nearest", " --convention align-corners"}) {
      tools::Problem packed = tools::parse_problem(std::string(op) + " --x-shape 2,3,5,7 --y-shape 2,3,9,8" + map);
      tools::Problem nhwc = packed;
      nhwc.nhwc = true;
      for (const std::int32_t dtype : {BP_F64, BP_F32, BP_F16, BP_BF16}) {
        const auto in = tools::random_values(tools::tensors(packed, dtype).inputs[0], tools::Fill::reals, 8, 1);
        EXPECT_EQ(run(nhwc, dtype, {in}).outputs[0].bits, run(packed, dtype, {in}).outputs[0].bits) << op << map;
      }
    }
  }
}

}  // namespace
