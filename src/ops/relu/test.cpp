// SPDX-License-Identifier: Apache-2.0
// ReLU: worked examples and properties.
#include "support.h"

#include <bit>
#include <cmath>

namespace {

using support::bits;
using support::run;
using Floats = std::vector<float>;

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kTiny = std::numeric_limits<float>::denorm_min();

// 7.10 gives the formula alone; the numbers are ours.
TEST(DirectmlFacts, V7_10_ReluGrad) {
  EXPECT_EQ(run<float>("relu-grad --x-shape 5", {{-2, -1, 0, 1, 2}, {10, 20, 30, 40, 50}}), (Floats{0, 0, 0, 40, 50}));
}

TEST(Relu, NegativeAndZeroGivePlusZero) {
  EXPECT_EQ(bits(run<float>("relu --x-shape 6", {{-1, -0.0f, 0, kTiny, -kTiny, -kInf}})),
            bits(Floats{0, 0, 0, kTiny, 0, 0}));
}

TEST(Relu, NaNStaysWithAllItsBits) {
  const auto problem = tools::parse_problem("relu --x-shape 3");
  const std::vector<std::uint32_t> x{0x7fc12345u, 0xff800001u, 0x7f800000u};
  EXPECT_EQ(run(problem, BP_F32, {support::dense(BP_F32, {3}, x)}).outputs[0].bits,
            (std::vector<std::uint64_t>{0x7fc12345u, 0xff800001u, 0x7f800000u}));
}

TEST(ReluGrad, NothingPassesWhereXIsNotAboveZero) {
  EXPECT_EQ(bits(run<float>("relu-grad --x-shape 5", {{kNaN, 0, -0.0f, -1, -kInf}, {kNaN, kInf, -kInf, kNaN, -1}})),
            bits(Floats{0, 0, 0, 0, 0}));
}

TEST(ReluGrad, WhatPassesKeepsEveryBit) {
  const auto problem = tools::parse_problem("relu-grad --x-shape 4");
  const auto x = support::dense<float>(BP_F32, {4}, {kTiny, 1, kInf, 3});
  const auto dy = support::dense<std::uint32_t>(BP_F32, {4}, {0x7fa00001u, 0xffc54321u, 0x80000000u, 0xff800000u});
  EXPECT_EQ(run(problem, BP_F32, {x, dy}).outputs[0].bits, dy.bits);
}

TEST(ReluGrad, NaNPassesWhenAsked) {
  EXPECT_EQ(run<float>("relu-grad --x-shape 3 --nan pass", {{kNaN, -1, 1}, {5, 6, 7}}), (Floats{5, 0, 7}));
  EXPECT_EQ(run<float>("relu-grad --x-shape 3 --nan zero", {{kNaN, -1, 1}, {5, 6, 7}}), (Floats{0, 0, 7}));
}

TEST(ReluGrad, TheOutputMayStandForTheInput) {
  const auto problem = tools::parse_problem("relu-grad --x-shape 500 --dtype f16");
  const tools::Tensors specs = tools::tensors(problem, BP_F16);
  const auto x = tools::random_values(specs.inputs[0], tools::Fill::mixed, 4, 1);
  const auto dy = tools::random_values(specs.inputs[1], tools::Fill::mixed, 4, 2);
  const auto y = run(tools::parse_problem("relu --x-shape 500"), BP_F16, {x}).outputs[0];
  EXPECT_EQ(run(problem, BP_F16, {y, dy}).outputs[0].bits, run(problem, BP_F16, {x, dy}).outputs[0].bits);
}

TEST(ReluGrad, Integers) {
  EXPECT_EQ(run<std::int8_t>("relu-grad --x-shape 4", {{-128, 0, 1, 127}, {1, 2, -3, 4}}),
            (std::vector<std::int8_t>{0, 0, -3, 4}));
  EXPECT_EQ(run<std::int64_t>("relu --x-shape 3", {{INT64_MIN, -1, INT64_MAX}}),
            (std::vector<std::int64_t>{0, 0, INT64_MAX}));
}

TEST(ReluGrad, AgreesWithFiniteDifferences) {
  const std::vector<double> x{-3, -1, 2, 5}, dy{1, 2, 3, 4};
  const auto dx = run<double>("relu-grad --x-shape 4", {x, dy});
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::vector<double> up = x, down = x;
    up[i] += 0.5;
    down[i] -= 0.5;
    EXPECT_EQ(dx[i], dy[i] * (run<double>("relu --x-shape 4", {up})[i] - run<double>("relu --x-shape 4", {down})[i]));
  }
}

}  // namespace
