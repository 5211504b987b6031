// SPDX-License-Identifier: Apache-2.0
// The DirectML door: the documents' examples through DirectML's descs. What it refuses is in
// directml_refusals_test.cpp; numbers, layout and tables are in directml_tables_test.cpp.
#include "directml_support.h"

#include <limits>
#include <string>

namespace directml {
namespace {

View f32(const Uints& sizes) { return {.type = DML_TENSOR_DATA_TYPE_FLOAT32, .sizes = sizes}; }

Floats count_to(int last) {
  Floats values;
  for (int i = 1; i <= last; ++i) values.push_back(static_cast<FLOAT>(i));
  return values;
}

// ---- Examples: max pooling -------------------------------------------------------------------------------

const Floats kPoolX{1, 2, 3, 2, 4, 2, 5, 6, 7};

// {1, 1, 3, 3} to {1, 1, 2, 2}, window 2 x 2, stride 1, which are the example's parameters.
Call pooling(int type) { return valid(type); }

TEST(DirectmlExample, MaxPooling) {
  for (const int type : {DML_OPERATOR_MAX_POOLING, DML_OPERATOR_MAX_POOLING1, DML_OPERATOR_MAX_POOLING2}) {
    EXPECT_EQ(run<FLOAT>(pooling(type), {kPoolX}), Floats({4, 4, 6, 7})) << name(type);
  }
}

// One input, two outputs, and the workspace that it asks for.
bp_status run_pooling(const bp_operator* op, const void* const* in, void* const* out) {
  std::size_t bytes = 0;
  bp_operator_workspace_size(op, &bytes);
  std::vector<std::max_align_t> workspace(bytes / sizeof(std::max_align_t) + 1);
  return bp_operator_run(op, in, 1, out, 2, workspace.data(), nullptr);
}

template <class Index>
void expect_indices(int type, int index_type) {
  Call c = pooling(type);
  c.tensors[2] = View{.type = index_type, .sizes = Uints{1, 1, 2, 2}};
  const Answer created = create(c);
  ASSERT_EQ(created.hresult, kOk) << created.error;
  Floats y(4, 99);
  std::vector<Index> indices(4, 99);
  const void* const in[] = {kPoolX.data()};
  void* const out[] = {y.data(), indices.data()};  // in the order of the struct
  ASSERT_EQ(run_pooling(created.op.get(), in, out), BP_OK) << bp_last_error();
  EXPECT_EQ(y, Floats({4, 4, 6, 7}));
  EXPECT_EQ(indices, std::vector<Index>({4, 4, 7, 8}));
}

TEST(DirectmlExample, MaxPoolingIndicesAreFlat) {
  for (const int type : {DML_OPERATOR_MAX_POOLING1, DML_OPERATOR_MAX_POOLING2}) {
    expect_indices<std::uint32_t>(type, DML_TENSOR_DATA_TYPE_UINT32);
    expect_indices<std::uint64_t>(type, DML_TENSOR_DATA_TYPE_UINT64);
  }
}

TEST(DirectmlExample, FlatIndicesCountOverBatchAndChannels) {
  Call c = pooling(DML_OPERATOR_MAX_POOLING2);
  c.tensor(0).sizes = Uints{2, 2, 3, 3};
  c.tensor(1).sizes = Uints{2, 2, 2, 2};
  c.tensors[2] = View{.type = DML_TENSOR_DATA_TYPE_UINT32, .sizes = Uints{2, 2, 2, 2}};
  const Answer created = create(c);
  ASSERT_EQ(created.hresult, kOk) << created.error;
  Floats x;
  for (int plane = 0; plane < 4; ++plane) x.insert(x.end(), kPoolX.begin(), kPoolX.end());
  Floats y(16, 99);
  Uints indices(16, 99);
  const void* const in[] = {x.data()};
  void* const out[] = {y.data(), indices.data()};
  ASSERT_EQ(run_pooling(created.op.get(), in, out), BP_OK) << bp_last_error();
  EXPECT_EQ(indices, Uints({4, 4, 7, 8, 13, 13, 16, 17, 22, 22, 25, 26, 31, 31, 34, 35}));
}

TEST(DirectmlExample, MaxPooling2Dilates) {
  Call c = pooling(DML_OPERATOR_MAX_POOLING2);
  c.tensor(1).sizes = Uints{1, 1, 1, 1};
  c.dilations = Uints{2, 2};
  EXPECT_EQ(run<FLOAT>(c, {{1, 9, 2, 9, 9, 9, 4, 9, 3}}), Floats({4}));
}

TEST(DirectmlExample, MaxPoolingPadsAndStridesEachAxisByItsOwn) {
  Call c = pooling(DML_OPERATOR_MAX_POOLING);
  c.tensor(0).sizes = Uints{1, 1, 6, 6};
  c.tensor(1).sizes = Uints{1, 1, 4, 4};
  c.window = Uints{3, 3};
  c.strides = Uints{2, 2};
  c.start_padding = Uints{1, 2};
  c.end_padding = Uints{2, 1};
  Floats x;
  for (int i = 1; i <= 36; ++i) x.push_back(static_cast<FLOAT>(-i));
  EXPECT_EQ(run<FLOAT>(c, {x}), Floats({-1, -1, -3, -5, -7, -7, -9, -11, -19, -19, -21, -23, -31, -31, -33, -35}));
}

TEST(DirectmlExample, MaxPoolingGrad) {
  EXPECT_EQ(run<FLOAT>(pooling(DML_OPERATOR_MAX_POOLING_GRAD), {kPoolX, {1, 2, 4, 5}}),
            Floats({0, 0, 0, 0, 3, 0, 0, 4, 5}));
}

TEST(DirectmlExample, MaxPoolingGradInThreeDimensions) {
  Call c = valid(DML_OPERATOR_MAX_POOLING_GRAD, DML_TENSOR_DATA_TYPE_FLOAT32, 5);
  Floats dy(8, 1), dx(27, 0);
  for (const std::size_t last : {13U, 14U, 16U, 17U, 22U, 23U, 25U, 26U}) dx[last] = 1;  // each window's last tap
  EXPECT_EQ(run<FLOAT>(c, {count_to(27), dy}), dx);
}

TEST(DirectmlExample, Nhwc) {
  Call c = pooling(DML_OPERATOR_MAX_POOLING_GRAD);
  c.tensors = {f32({1, 2, 3, 3}), f32({1, 2, 2, 2}), f32({1, 2, 3, 3})};
  c.tensor(0).strides = Uints{18, 1, 6, 2};
  c.tensor(1).strides = Uints{8, 1, 4, 2};
  c.tensor(2).strides = Uints{18, 1, 6, 2};
  Floats x = kPoolX;
  x.insert(x.end(), {9, 1, 1, 1, 1, 1, 1, 1, 1});
  EXPECT_EQ(run<FLOAT>(c, {x, {1, 2, 4, 5, 1, 2, 4, 8}}),
            Floats({0, 0, 0, 0, 3, 0, 0, 4, 5, 1, 2, 0, 4, 8, 0, 0, 0, 0}));
}

// ---- Examples: relu --------------------------------------------------------------------------------------

TEST(DirectmlExample, ReluAndItsGradient) {
  constexpr FLOAT kNaN = std::numeric_limits<FLOAT>::quiet_NaN();
  Call c = valid(DML_OPERATOR_ACTIVATION_RELU);
  for (std::optional<View>& view : c.tensors) view->sizes = Uints{5};
  EXPECT_EQ(run<FLOAT>(c, {{-1, 0, 2, -3, 4}}), Floats({0, 0, 2, 0, 4}));
  c = valid(DML_OPERATOR_ACTIVATION_RELU_GRAD);
  for (std::optional<View>& view : c.tensors) view->sizes = Uints{5};
  EXPECT_EQ(run<FLOAT>(c, {{-1, 0, 2, kNaN, 4}, {10, 20, 30, 40, 50}}), Floats({0, 0, 30, 0, 50}));
}

TEST(DirectmlExample, ReluRunsInPlace) {
  const Answer created = create(valid(DML_OPERATOR_ACTIVATION_RELU));
  Floats x{-1, 0, 2, -3, 4, -5, 6, -7, 8};
  const void* const in[] = {x.data()};
  void* const out[] = {x.data()};
  ASSERT_EQ(bp_operator_run(created.op.get(), in, 1, out, 1, nullptr, nullptr), BP_OK) << bp_last_error();
  EXPECT_EQ(x, Floats({0, 0, 2, 0, 4, 0, 6, 0, 8}));
}

TEST(DirectmlExample, AnInputIsBroadcastByStrideZero) {
  Call c = valid(DML_OPERATOR_ACTIVATION_RELU_GRAD);
  for (std::optional<View>& view : c.tensors) view->sizes = Uints{2, 3};
  c.tensor(1).strides = Uints{0, 1};
  c.tensor(1).total = 12;
  const Answer created = create(c);
  ASSERT_EQ(created.hresult, kOk) << created.error;
  const Floats x{1, -1, 1, -1, 1, 1}, dy{7, 8, 9};
  Floats dx(6, 99);
  const void* const in[] = {x.data(), dy.data()};
  void* const out[] = {dx.data()};
  ASSERT_EQ(bp_operator_run(created.op.get(), in, 2, out, 1, nullptr, nullptr), BP_OK) << bp_last_error();
  EXPECT_EQ(dx, Floats({7, 0, 9, 0, 8, 9}));
}

// ---- Examples: slice -------------------------------------------------------------------------------------

Call slice(int type, const Uints& x, const Uints& y, const Uints& offsets, const Uints& sizes) {
  Call c = valid(type);
  c.tensors = {f32(x), f32(y)};
  if (is_gradient(type)) std::swap(c.tensors[0], c.tensors[1]);
  c.offsets = offsets;
  c.sizes = sizes;
  return c;
}

TEST(DirectmlExample, Slice) {
  Call c = slice(DML_OPERATOR_SLICE, {1, 1, 4, 4}, {1, 1, 3, 2}, {0, 0, 1, 2}, {1, 1, 3, 2});
  EXPECT_EQ(run<FLOAT>(c, {count_to(16)}), Floats({7, 8, 11, 12, 15, 16}));
  c = slice(DML_OPERATOR_SLICE, {1, 1, 4, 4}, {1, 1, 2, 2}, {0, 0, 1, 0}, {1, 1, 2, 2});
  c.strides = Uints{1, 1, 2, 3};
  EXPECT_EQ(run<FLOAT>(c, {count_to(16)}), Floats({5, 8, 13, 16}));
}

TEST(DirectmlExample, Slice1) {
  Call c = slice(DML_OPERATOR_SLICE1, {1, 1, 4, 4}, {1, 1, 2, 2}, {0, 0, 0, 1}, {1, 1, 4, 3});
  c.signed_strides = Ints{1, 1, 2, 2};
  EXPECT_EQ(run<FLOAT>(c, {count_to(16)}), Floats({2, 4, 10, 12}));
  c.signed_strides = Ints{1, 1, -2, 2};
  EXPECT_EQ(run<FLOAT>(c, {count_to(16)}), Floats({14, 16, 6, 8}));
}

TEST(DirectmlExample, SliceGrad) {
  for (const UINT window : {3U, 4U}) {
    Call c = slice(DML_OPERATOR_SLICE_GRAD, {4, 4}, {2, 2}, {0, 0}, {window, window});
    c.count = 2;
    c.signed_strides = Ints{2, 2};
    EXPECT_EQ(run<FLOAT>(c, {{1, 3, 9, 11}}), Floats({1, 0, 3, 0, 0, 0, 0, 0, 9, 0, 11, 0, 0, 0, 0, 0}));
  }
  Call c = slice(DML_OPERATOR_SLICE_GRAD, {1, 1, 4, 4}, {1, 1, 2, 2}, {0, 0, 0, 1}, {1, 1, 4, 3});
  c.signed_strides = Ints{1, 1, 2, 2};
  EXPECT_EQ(run<FLOAT>(c, {{1, 2, 3, 4}}), Floats({0, 1, 0, 2, 0, 0, 0, 0, 0, 3, 0, 4, 0, 0, 0, 0}));
  c.signed_strides = Ints{1, 1, -2, 2};
  EXPECT_EQ(run<FLOAT>(c, {{1, 2, 3, 4}}), Floats({0, 0, 0, 0, 0, 3, 0, 4, 0, 0, 0, 0, 0, 1, 0, 2}));
}

// ---- Examples: resample ----------------------------------------------------------------------------------

// Height by 0.5 and width by 1.5, nearest: {1, 1, 2, 2} and {1, 1, 1, 3}.
Call example_of_the_documents(int type, FLOAT input_offset, FLOAT output_offset) {
  Call c = valid(type);
  c.tensors = {f32({1, 1, 2, 2}), f32({1, 1, 1, 3})};
  if (is_gradient(type)) std::swap(c.tensors[0], c.tensors[1]);
  c.mode = DML_INTERPOLATION_MODE_NEAREST_NEIGHBOR;
  c.rounding = DML_AXIS_DIRECTION_DECREASING;
  c.scales = Floats{1, 1, 0.5F, 1.5F};
  c.input_offsets = Floats(4, input_offset);
  c.output_offsets = Floats(4, output_offset);
  return c;
}

TEST(DirectmlExample, ResampleNearest) {
  const Floats x{1, 2, 3, 4};
  EXPECT_EQ(run<FLOAT>(example_of_the_documents(DML_OPERATOR_RESAMPLE2, 0.5F, -0.5F), {x}), Floats({1, 1, 2}));
  EXPECT_EQ(run<FLOAT>(example_of_the_documents(DML_OPERATOR_RESAMPLE2, 0, 0), {x}), Floats({1, 1, 2}));
  EXPECT_EQ(run<FLOAT>(example_of_the_documents(DML_OPERATOR_RESAMPLE1, 0.5F, 0), {x}), Floats({1, 1, 2}));
  // At the centers of pixels the older ones round the tie of the height up.
  EXPECT_EQ(run<FLOAT>(example_of_the_documents(DML_OPERATOR_RESAMPLE1, 0.5F, -0.5F), {x}), Floats({3, 4, 4}));
  EXPECT_EQ(run<FLOAT>(example_of_the_documents(DML_OPERATOR_RESAMPLE, 9, 9), {x}), Floats({3, 4, 4}));
}

TEST(DirectmlExample, ResampleGradNearest) {
  const Floats dy{4, 5, 6}, expected{9, 6, 0, 0};
  EXPECT_EQ(run<FLOAT>(example_of_the_documents(DML_OPERATOR_RESAMPLE_GRAD1, 0.5F, -0.5F), {dy}), expected);
  EXPECT_EQ(run<FLOAT>(example_of_the_documents(DML_OPERATOR_RESAMPLE_GRAD1, 0, 0), {dy}), expected);
  EXPECT_EQ(run<FLOAT>(example_of_the_documents(DML_OPERATOR_RESAMPLE_GRAD, 0.5F, 0), {dy}), expected);
  EXPECT_EQ(run<FLOAT>(example_of_the_documents(DML_OPERATOR_RESAMPLE_GRAD, 0.5F, -0.5F), {dy}), Floats({0, 0, 4, 11}));
}

TEST(DirectmlExample, ResampleRoundsAsItsDirectionSays) {
  Call c = example_of_the_documents(DML_OPERATOR_RESAMPLE2, 0.5F, -0.5F);
  c.rounding = DML_AXIS_DIRECTION_INCREASING;  // height 0.5 to 1; width -1/6, 0.5, 7/6 to 0, 1, 1 (clamped)
  EXPECT_EQ(run<FLOAT>(c, {{1, 2, 3, 4}}), Floats({3, 4, 4}));
  c.tensor(1).sizes = Uints{1, 1, 1, 2};
  c.scales = Floats{1, 1, 1, 1};
  c.input_offsets = Floats{0, 0, 0, -0.25F};
  c.output_offsets = Floats(4, 0);
  EXPECT_EQ(run<FLOAT>(c, {{1, 2, 3, 4}}), Floats({2, 2}));
  c.rounding = DML_AXIS_DIRECTION_DECREASING;
  EXPECT_EQ(run<FLOAT>(c, {{1, 2, 3, 4}}), Floats({1, 2}));
}

TEST(DirectmlExample, ResampleLinear) {
  for (const int type : {DML_OPERATOR_RESAMPLE, DML_OPERATOR_RESAMPLE1, DML_OPERATOR_RESAMPLE2}) {
    Call c = valid(type);
    c.tensors = {f32({1, 1, 2, 2}), f32({1, 1, 4, 4})};
    c.scales = Floats{1, 1, 2, 2};
    EXPECT_EQ(run<FLOAT>(c, {{1, 2, 3, 4}}),
              Floats({1, 1.25F, 1.75F, 2, 1.5F, 1.75F, 2.25F, 2.5F, 2.5F, 2.75F, 3.25F, 3.5F, 3, 3.25F, 3.75F, 4}))
        << name(type);
  }
}

// Forward 2 to 4, linear; the vector that tells the two readings of the gradient's offsets apart.
Call discriminating(int type, FLOAT input_offset, FLOAT output_offset, std::uint32_t flags) {
  Call c = valid(type);
  c.tensors = {f32({4}), f32({2})};
  c.count = 1;
  c.scales = Floats{2};
  c.input_offsets = Floats{input_offset};
  c.output_offsets = Floats{output_offset};
  c.flags = flags;
  return c;
}

TEST(DirectmlExample, TheGradientsOffsetsAreTheForwardOnesUnlessSwapped) {
  for (const int type : {DML_OPERATOR_RESAMPLE_GRAD, DML_OPERATOR_RESAMPLE_GRAD1}) {
    const auto gradient = [&](FLOAT input_offset, FLOAT output_offset, std::uint32_t flags) {
      return run<FLOAT>(discriminating(type, input_offset, output_offset, flags), {{1, 2, 3, 4}});
    };
    EXPECT_EQ(gradient(0.5F, -0.5F, 0), Floats({3.25F, 6.75F}));
    EXPECT_EQ(gradient(-0.5F, 0.5F, BP_DML_OFFSETS_SWAPPED), Floats({3.25F, 6.75F}));
    EXPECT_EQ(gradient(0.5F, -0.5F, BP_DML_OFFSETS_SWAPPED), Floats({1.25F, 8.75F}));
    EXPECT_EQ(gradient(-0.5F, 0.5F, 0), Floats({1.25F, 8.75F}));
  }
}

}  // namespace
}  // namespace directml
