// SPDX-License-Identifier: Apache-2.0
// Slice: worked examples and properties.
#include "core/cache_size.h"
#include "support.h"

#include <numeric>

namespace {

using support::run;
using Ints = std::vector<std::int32_t>;

const Ints kX = support::count_from<std::int32_t>(1, 16);

TEST(DirectmlFacts, V7_5a_Slice) {
  EXPECT_EQ(run<std::int32_t>("slice --x-shape 1,1,4,4 --offsets 0,0,1,2 --sizes 1,1,3,2", {kX}),
            (Ints{7, 8, 11, 12, 15, 16}));
}
// SLICE's Sizes are those of the output; SLICE1's window of the same elements is (size - 1) * stride + 1.
TEST(DirectmlFacts, V7_5b_SliceWithStrides) {
  EXPECT_EQ(run<std::int32_t>("slice --x-shape 1,1,4,4 --offsets 0,0,1,0 --sizes 1,1,3,4 --strides 1,1,2,3", {kX}),
            (Ints{5, 8, 13, 16}));
}
TEST(DirectmlFacts, V7_6a_Slice1) {
  EXPECT_EQ(run<std::int32_t>(
                "slice --x-shape 1,1,4,4 --y-shape 1,1,2,2 --offsets 0,0,0,1 --sizes 1,1,4,3 --strides 1,1,2,2", {kX}),
            (Ints{2, 4, 10, 12}));
}
TEST(DirectmlFacts, V7_6b_Slice1NegativeStride) {
  EXPECT_EQ(run<std::int32_t>(
                "slice --x-shape 1,1,4,4 --y-shape 1,1,2,2 --offsets 0,0,0,1 --sizes 1,1,4,3 --strides 1,1,-2,2", {kX}),
            (Ints{14, 16, 6, 8}));
}
TEST(DirectmlFacts, V7_7_SliceGrad) {
  for (const char* sizes : {"3,3", "4,4"}) {
    EXPECT_EQ(run<std::uint8_t>(std::string("slice-grad --x-shape 4,4 --strides 2,2 --sizes ") + sizes,
                                {{'a', 'c', 'i', 'k'}}),
              (std::vector<std::uint8_t>{'a', 0, 'c', 0, 0, 0, 0, 0, 'i', 0, 'k', 0, 0, 0, 0, 0}));
  }
}
TEST(DirectmlFacts, V7_7_SliceGradDerivedFrom7_6) {
  const std::string common = "slice-grad --x-shape 1,1,4,4 --y-shape 1,1,2,2 --offsets 0,0,0,1 --sizes 1,1,4,3";
  EXPECT_EQ(run<std::int32_t>(common + " --strides 1,1,2,2", {{1, 2, 3, 4}}),
            (Ints{0, 1, 0, 2, 0, 0, 0, 0, 0, 3, 0, 4, 0, 0, 0, 0}));
  EXPECT_EQ(run<std::int32_t>(common + " --strides 1,1,-2,2", {{1, 2, 3, 4}}),
            (Ints{0, 0, 0, 0, 0, 3, 0, 4, 0, 0, 0, 0, 0, 1, 0, 2}));
}

TEST(DirectmlFacts, V7_13_Strides) {
  // Sizes {2,2,3} are packed as {6,3,1}: element (1,0,1) is number 7.
  EXPECT_EQ(run<std::int32_t>("slice --x-shape 2,2,3 --offsets 1,0,1 --sizes 1,1,1",
                              {support::count_from<std::int32_t>(0, 12)}),
            (Ints{7}));
  EXPECT_EQ(tools::tensors(tools::parse_problem("relu --x-shape 2,2,3"), BP_F32).inputs[0].strides,
            (tools::Ints{6, 3, 1}));
  const auto nchw = tools::parse_problem("relu --x-shape 1,1,3,5");
  const auto nhwc = tools::parse_problem("relu --x-shape 1,1,3,5 --nhwc");
  EXPECT_EQ(tools::tensors(nchw, BP_F32).inputs[0].strides, (tools::Ints{15, 15, 5, 1}));
  EXPECT_EQ(tools::tensors(nhwc, BP_F32).inputs[0].strides, (tools::Ints{15, 1, 5, 1}));
}

TEST(Slice, MovesEveryBitPattern) {
  const auto problem = tools::parse_problem("slice --x-shape 4 --strides -1");
  const auto x = support::dense<std::uint32_t>(BP_F32, {4}, {0x7f800001u, 0xffc00000u, 0x80000000u, 0x00000001u});
  EXPECT_EQ(run(problem, BP_F32, {x}).outputs[0].bits,
            (std::vector<std::uint64_t>{0x00000001u, 0x80000000u, 0xffc00000u, 0x7f800001u}));
}

TEST(SliceGrad, LeavesZeroBitsElsewhere) {
  EXPECT_EQ(support::bits(run<double>("slice-grad --x-shape 4 --offsets 1 --sizes 2", {{-0.0, -0.0}})),
            support::bits(std::vector<double>{0.0, -0.0, -0.0, 0.0}));
}

// <dy, S x> = <S^T dy, x>, exact in integers.
TEST(SliceGrad, IsTheAdjoint) {
  for (const tools::Problem& named : tools::named_problems()) {
    if (named.kind != BP_SLICE) continue;
    tools::Problem grad = named;
    grad.kind = BP_SLICE_GRAD;
    const tools::Tensors forward_specs = tools::tensors(named, BP_F64);
    tools::TensorSpec x_spec = forward_specs.inputs[0];
    x_spec.strides.assign(x_spec.sizes.size(), 1);
    const auto x = tools::random_values(x_spec, tools::Fill::integers, 2, 1);
    const auto dy = tools::random_values(tools::tensors(grad, BP_F64).inputs[0], tools::Fill::integers, 2, 2);
    tools::Problem packed = named;
    packed.x_strides.clear();
    const auto y = support::values<double>(run(packed, BP_F64, {x}).outputs[0]);
    const auto dx = support::values<double>(run(grad, BP_F64, {dy}).outputs[0]);
    const auto xs = support::values<double>(x);
    const auto dys = support::values<double>(dy);
    double left = 0;
    double right = 0;
    for (std::size_t i = 0; i < y.size(); ++i) left += dys[i] * y[i];
    for (std::size_t i = 0; i < dx.size(); ++i) right += dx[i] * xs[i];
    EXPECT_EQ(left, right) << named.name;
  }
}

TEST(Slice, ChannelsLastGivesTheBitsOfPacked) {
  for (const char* line : {"slice --x-shape 2,6,4,5 --offsets 0,2,0,0 --sizes 2,3,4,5 --strides 1,1,-1,2",
                           "slice-grad --x-shape 2,6,4,5 --offsets 0,2,0,0 --sizes 2,3,4,5 --strides 1,1,-1,2"}) {
    tools::Problem packed = tools::parse_problem(line);
    tools::Problem nhwc = packed;
    nhwc.nhwc = true;
    const auto in = tools::random_values(tools::tensors(packed, BP_U16).inputs[0], tools::Fill::mixed, 8, 1);
    EXPECT_EQ(run(nhwc, BP_U16, {in}).outputs[0].bits, run(packed, BP_U16, {in}).outputs[0].bits) << line;
  }
}

// Past the cache whole lines are streamed, whatever the runs: short, long, cut by the lines, with zeros between.
class PastTheCache : public testing::TestWithParam<const char*> {};

std::vector<std::uint16_t> run_as(const std::string& implementation, const tools::Problem& problem,
                                  const std::vector<std::uint16_t>& in) {
  const tools::Tensors specs = tools::tensors(problem, BP_U16);
  const tools::CreateResult created = tools::try_create(problem, specs, {.implementation = implementation});
  EXPECT_TRUE(created.op) << created.error;
  std::vector<std::uint16_t> out(static_cast<std::size_t>(tools::element_count(specs.outputs[0].sizes)), 0xc3c3);
  const void* inputs[] = {in.data()};
  void* outputs[] = {out.data()};
  EXPECT_EQ(bp_operator_run(created.op.get(), inputs, 1, outputs, 1, nullptr, nullptr), BP_OK) << bp_last_error();
  return out;
}

TEST_P(PastTheCache, GivesTheBitsOfTheReference) {
  tools::Problem problem = tools::parse_problem(GetParam());
  const auto image = static_cast<std::size_t>(tools::element_count(problem.y_shape)) * sizeof(std::uint16_t);
  const std::size_t images = bp::last_level_cache() / image + 1;
  if (images * image > std::size_t{256} << 20) GTEST_SKIP() << "the cache is too large";
  problem.x_shape[0] = problem.y_shape[0] = problem.sizes[0] = static_cast<std::int64_t>(images);
  std::vector<std::uint16_t> in(
      static_cast<std::size_t>(tools::element_count(tools::tensors(problem, BP_U16).inputs[0].sizes)));
  std::iota(in.begin(), in.end(), std::uint16_t{1});
  EXPECT_TRUE(run_as("simd", problem, in) == run_as("reference", problem, in));
}

INSTANTIATE_TEST_SUITE_P(
    Slice, PastTheCache,
    testing::Values(
        "slice --x-shape 1,9,31,56 --strides 1,1,1,-1", "slice --x-shape 1,3,211,333 --strides 1,1,2,2",
        "slice --x-shape 1,40,31,33 --y-strides 40920,1,1320,40",
        "slice --x-shape 1,40,31,33 --x-strides 40920,1,1320,40",
        "slice-grad --x-shape 1,40,31,70 --offsets 0,0,0,17 --sizes 1,40,31,33 --dy-strides 40920,1,1320,40",
        "slice-grad --x-shape 1,9,31,57 --offsets 0,0,0,1 --sizes 1,9,31,56 --strides 1,1,1,-1",
        "slice-grad --x-shape 1,3,211,333 --strides 1,1,2,2",
        "slice-grad --x-shape 1,3,211,700 --offsets 0,0,9,77 --sizes 1,3,190,600",
        "slice-grad --x-shape 1,24,31,33 --nhwc --offsets 0,3,1,0 --sizes 1,17,29,33",
        "slice-grad --x-shape 1,150,31,33 --nhwc --strides 1,1,1,-2", "slice-grad --x-shape 1,40001 --strides 1,3"));

}  // namespace
