// SPDX-License-Identifier: Apache-2.0
// backpass.hpp: every operator, in one call and planned.
#include "cpp_api_support.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace cpp_api {
namespace {

TEST(CppRelu, InOneCall) {
  const Floats x{-2, -1, 0, 1, 2};
  Floats y = unwritten(5);
  backpass::relu(Tensor(x, {5}), Tensor(y, {5}));
  EXPECT_EQ(y, (Floats{0, 0, 0, 1, 2}));
}

TEST(CppRelu, Planned) {
  const Floats x{-2, -1, 0, 1, 2};
  Floats y = unwritten(5);
  run(Relu{.x = Tensor(x, {5}), .y = Tensor(y, {5})}, {x.data()}, {y.data()});
  EXPECT_EQ(y, (Floats{0, 0, 0, 1, 2}));
}

TEST(CppRelu, InPlace) {
  Ints x{-3, 4, 0, 5};
  backpass::relu(Tensor(x, {4}), Tensor(x, {4}));
  EXPECT_EQ(x, (Ints{0, 4, 0, 5}));
}

TEST(CppReluGrad, InOneCall) {
  const Floats x{-2, -1, 0, 1, 2}, dy{10, 20, 30, 40, 50};
  Floats dx = unwritten(5);
  backpass::relu_grad(Tensor(x, {5}), Tensor(dy, {5}), Tensor(dx, {5}));
  EXPECT_EQ(dx, (Floats{0, 0, 0, 40, 50}));
}

TEST(CppReluGrad, PassesWhereXIsNaNOnlyWhenAsked) {
  const Floats x{kNaN, -1, 1}, dy{5, 6, 7};
  Floats dx = unwritten(3);
  backpass::relu_grad(Tensor(x, {3}), Tensor(dy, {3}), Tensor(dx, {3}));
  EXPECT_EQ(dx, (Floats{0, 0, 7}));
  backpass::relu_grad(Tensor(x, {3}), Tensor(dy, {3}), Tensor(dx, {3}), Nan::pass);
  EXPECT_EQ(dx, (Floats{5, 0, 7}));
}

TEST(CppReluGrad, Planned) {
  const Floats x{kNaN, -1, 1}, dy{5, 6, 7};
  Floats dx = unwritten(3);
  const TensorDesc desc{.sizes = {3}};
  run(ReluGrad{.x = desc, .dy = desc, .dx = desc, .nan = Nan::pass}, {x.data(), dy.data()}, {dx.data()});
  EXPECT_EQ(dx, (Floats{5, 0, 7}));
}

TEST(CppMaxPool, InOneCall) {
  Floats y = unwritten(4);
  backpass::max_pool(Tensor(kX, kXSizes), Tensor(y, kYSizes), kPool);
  EXPECT_EQ(y, kY);
}

TEST(CppMaxPool, InOneCallWithWinnersOfBothKinds) {
  Floats y = unwritten(4);
  std::vector<std::uint32_t> flat(4, 99);
  backpass::max_pool(Tensor(kX, kXSizes), Tensor(y, kYSizes), Tensor(flat, kYSizes),
                     {.window = {2, 2}, .strides = {1, 1}, .winners = Winners::flat});
  EXPECT_EQ(y, kY);
  EXPECT_EQ(flat, (std::vector<std::uint32_t>{4, 4, 7, 8}));

  std::vector<std::uint8_t> compact(4, 99);
  y = unwritten(4);
  backpass::max_pool(Tensor(kX, kXSizes), Tensor(y, kYSizes), Tensor(compact, kYSizes), kPool);
  EXPECT_EQ(y, kY);
  EXPECT_EQ(compact, (std::vector<std::uint8_t>{3, 2, 3, 3}));
}

TEST(CppMaxPool, PlannedWithWinners) {
  Floats y = unwritten(4);
  std::vector<std::int64_t> winners(4, 99);
  run(MaxPool{.x = kXDesc,
              .y = kYDesc,
              .winners = Tensor(winners, kYSizes),
              .window = kPool.as_window(),
              .winners_kind = Winners::flat},
      {kX.data()}, {y.data(), winners.data()});
  EXPECT_EQ(y, kY);
  EXPECT_EQ(winners, (std::vector<std::int64_t>{4, 4, 7, 8}));
}

TEST(CppMaxPool, PaddingAndDilationsReachTheLibrary) {
  const Floats x{1, 9, 2, 8, 3, 7, 4, 6, 5};
  Floats y = unwritten(9);
  backpass::max_pool(Tensor(x, {1, 1, 9}), Tensor(y, {1, 1, 9}),
                     {.window = {2}, .strides = {1}, .start_padding = {1}, .end_padding = {1}, .dilations = {2}});
  EXPECT_EQ(y, (Floats{9, 2, 9, 3, 8, 4, 7, 5, 6}));
}

TEST(CppMaxPool, StartAndEndPaddingAreNotExchanged) {
  const Floats x{1, 2, 3};
  Floats y = unwritten(3);
  backpass::max_pool(Tensor(x, {1, 1, 3}), Tensor(y, {1, 1, 3}), {.window = {2}, .strides = {1}, .start_padding = {1}});
  EXPECT_EQ(y, (Floats{1, 2, 3}));
  backpass::max_pool(Tensor(x, {1, 1, 3}), Tensor(y, {1, 1, 3}), {.window = {2}, .strides = {1}, .end_padding = {1}});
  EXPECT_EQ(y, (Floats{2, 3, 3}));
}

TEST(CppMaxPool, TheStridesDefaultToTheWindow) {
  const Floats x{1, 5, 2, 3};
  Floats y = unwritten(2);
  backpass::max_pool(Tensor(x, {1, 1, 4}), Tensor(y, {1, 1, 2}), {.window = {2}});
  EXPECT_EQ(y, (Floats{5, 3}));
}

TEST(CppMaxPoolGrad, InOneCall) {
  Floats dx = unwritten(9);
  backpass::max_pool_grad(Tensor(kX, kXSizes), Tensor(kDy, kYSizes), Tensor(dx, kXSizes),
                          {.window = {2, 2}, .strides = {1, 1}});
  EXPECT_EQ(dx, kDx);
}

TEST(CppMaxPoolGrad, Planned) {
  Floats dx = unwritten(9);
  run(pool_grad(), {kX.data(), kDy.data()}, {dx.data()});
  EXPECT_EQ(dx, kDx);
}

TEST(CppMaxPoolGrad, TensorsStandForTheirDescs) {
  Floats dx_data = unwritten(9);
  const Tensor x(kX, kXSizes), dy(kDy, kYSizes);
  const Tensor dx(dx_data, kXSizes);
  run(MaxPoolGrad{.x = x, .dy = dy, .dx = dx, .window = kPool.as_window()}, {x.data(), dy.data()}, {dx.data()});
  EXPECT_EQ(dx_data, kDx);
}

TEST(CppMaxPoolGrad, FromCompactWinners) {
  const std::vector<std::uint8_t> winners{3, 2, 3, 3};
  Floats dx = unwritten(9);
  backpass::max_pool_grad_from(Tensor(winners, kYSizes), Tensor(kDy, kYSizes), Tensor(dx, kXSizes), kPool);
  EXPECT_EQ(dx, kDx);
}

TEST(CppMaxPoolGrad, FromFlatWinners) {
  const std::vector<std::int32_t> winners{4, 4, 7, 8};
  Floats dx = unwritten(9);
  backpass::max_pool_grad_from(Tensor(winners, kYSizes), Tensor(kDy, kYSizes), Tensor(dx, kXSizes),
                               {.window = {2, 2}, .strides = {1, 1}, .winners = Winners::flat});
  EXPECT_EQ(dx, kDx);
}

TEST(CppMaxPoolGrad, PlannedFromStoredWinners) {
  const std::vector<std::uint64_t> winners{4, 4, 7, 8};
  Floats dx = unwritten(9);
  run(MaxPoolGrad{.dy = kYDesc,
                  .winners = Tensor(winners, kYSizes),
                  .dx = kXDesc,
                  .window = kPool.as_window(),
                  .winners_kind = Winners::flat},
      {nullptr, kDy.data(), winners.data()}, {dx.data()});
  EXPECT_EQ(dx, kDx);
}

TEST(CppMaxPoolGrad, AWrongWinnerIsThrownAfterEverythingIsWritten) {
  const std::vector<std::int32_t> winners{4, 4, 0, 8};
  Floats dx = unwritten(9);
  const Thrown error = thrown([&] {
    backpass::max_pool_grad_from(Tensor(winners, kYSizes), Tensor(kDy, kYSizes), Tensor(dx, kXSizes),
                                 {.window = {2, 2}, .strides = {1, 1}, .winners = Winners::flat});
  });
  EXPECT_EQ(error.code, Status::invalid_argument) << error.text;
  EXPECT_EQ(dx, (Floats{0, 0, 0, 0, 3, 0, 0, 0, 5}));
}

TEST(CppConvertWinners, FlatToCompactAndToPlane) {
  const std::vector<std::uint32_t> flat{4, 4, 7, 8};
  std::vector<std::uint8_t> compact(4, 99);
  ConvertWinners convert{.from = Tensor(flat, kYSizes),
                         .to = Tensor(compact, kYSizes),
                         .x_sizes = kXSizes,
                         .window = kPool.as_window(),
                         .from_kind = Winners::flat,
                         .to_kind = Winners::compact};
  run(convert, {flat.data()}, {compact.data()});
  EXPECT_EQ(compact, (std::vector<std::uint8_t>{3, 2, 3, 3}));

  std::vector<std::int64_t> plane(4, 99);
  convert.to = Tensor(plane, kYSizes);
  convert.to_kind = Winners::plane;
  run(convert, {flat.data()}, {plane.data()});
  EXPECT_EQ(plane, (std::vector<std::int64_t>{4, 4, 7, 8}));
}

TEST(CppConvertWinners, PlanesStartAgainInEveryChannel) {
  const std::vector<std::int64_t> flat{1, 2};
  std::vector<std::int64_t> plane(2, 99);
  run(ConvertWinners{.from = Tensor(flat, {1, 2, 1}),
                     .to = Tensor(plane, {1, 2, 1}),
                     .x_sizes = {1, 2, 2},
                     .window = {.size = {2}},
                     .from_kind = Winners::flat,
                     .to_kind = Winners::plane},
      {flat.data()}, {plane.data()});
  EXPECT_EQ(plane, (std::vector<std::int64_t>{1, 0}));
}

TEST(CppOneCall, ConvertWinners) {
  const std::vector<std::uint8_t> compact{3, 2, 3, 3};
  std::vector<std::int64_t> flat(4);
  backpass::convert_winners(Tensor(compact, {1, 1, 2, 2}), Winners::compact, Tensor(flat, {1, 1, 2, 2}), Winners::flat,
                            {1, 1, 3, 3}, {.window = {2, 2}, .strides = {1, 1}});
  EXPECT_EQ(flat, (std::vector<std::int64_t>{4, 4, 7, 8}));
}

// Scale 1.5 in width, 0.5 in height: the document's example.
const ResampleMap kDocument{.mode = Mode::nearest, .rounding = Rounding::decreasing, .scales = {0.5, 1.5}};

TEST(CppResample, InOneCall) {
  const Floats x{1, 2, 3, 4};
  Floats y = unwritten(3);
  backpass::resample(Tensor(x, {2, 2}), Tensor(y, {1, 3}), kDocument);
  EXPECT_EQ(y, (Floats{1, 1, 2}));
}

TEST(CppResample, LinearHalfPixelIsTheDefault) {
  const Floats x{1, 2, 3, 4};
  Floats y = unwritten(16);
  backpass::resample(Tensor(x, {2, 2}), Tensor(y, {4, 4}));
  EXPECT_EQ(y, (Floats{1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4}));
}

TEST(CppResample, PlannedWithAConvention) {
  const Floats x{5, 6, 7, 8};
  Floats y = unwritten(2);
  run(Resample{.x = Tensor(x, {4}), .y = Tensor(y, {2}), .map = {.convention = Convention::align_corners}}, {x.data()},
      {y.data()});
  EXPECT_EQ(y, (Floats{5, 8}));
}

TEST(CppResample, ByAnExplicitTable) {
  const std::vector<std::uint8_t> x{1, 254};
  std::vector<std::uint8_t> y(3, 99);
  backpass::resample(Tensor(x, {2}), Tensor(y, {3}),
                     {.tables = {{.first = {0, 0, 0}, .count = {2, 2, 1}, .weights = {0.5, 0.5, 1, 1, -1}}}});
  EXPECT_EQ(y, (std::vector<std::uint8_t>{128, 255, 0}));
}

TEST(CppResample, AnEmptyTableLeavesItsAxisToTheMode) {
  const Floats x{1, 2, 3, 4};
  Floats y = unwritten(2);
  backpass::resample(
      Tensor(x, {2, 2}), Tensor(y, {1, 2}),
      {.mode = Mode::nearest, .tables = {{.first = {0}, .count = {2}, .weights = {0.5, 0.25}}, AxisTable{}}});
  EXPECT_EQ(y, (Floats{1.25, 2}));
}

TEST(CppResampleGrad, InOneCall) {
  const Floats dy{4, 5, 6};
  Floats dx = unwritten(4);
  backpass::resample_grad(Tensor(dy, {1, 3}), Tensor(dx, {2, 2}), kDocument);
  EXPECT_EQ(dx, (Floats{9, 6, 0, 0}));
}

TEST(CppResampleGrad, PlannedWithOffsets) {
  const Floats dy{1, 2, 3, 4};
  Floats dx = unwritten(2);
  ResampleGrad grad{.dy = Tensor(dy, {4}),
                    .dx = Tensor(dx, {2}),
                    .map = {.scales = {2}, .input_offsets = {0.5}, .output_offsets = {-0.5}}};
  run(grad, {dy.data()}, {dx.data()});
  EXPECT_EQ(dx, (Floats{3.25, 6.75}));
  std::swap(grad.map.input_offsets, grad.map.output_offsets);
  run(grad, {dy.data()}, {dx.data()});
  EXPECT_EQ(dx, (Floats{1.25, 8.75}));
}

TEST(CppResampleGrad, ByAnExplicitTable) {
  const Floats dy{10, 100};
  Floats dx = unwritten(3);
  backpass::resample_grad(Tensor(dy, {2}), Tensor(dx, {3}),
                          {.tables = {{.first = {0, 1}, .count = {2, 2}, .weights = {1, 2, 3, 4}}}});
  EXPECT_EQ(dx, (Floats{10, 320, 400}));
}

const SliceWindow kSlice{.offsets = {0, 1}, .sizes = {4, 3}, .strides = {-2, 2}};

TEST(CppSlice, InOneCallAndPlanned) {
  const Ints x{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  Ints y = unwritten<std::int32_t>(4);
  backpass::slice(Tensor(x, {4, 4}), Tensor(y, {2, 2}), kSlice);
  EXPECT_EQ(y, (Ints{14, 16, 6, 8}));
  y = unwritten<std::int32_t>(4);
  run(Slice{.x = Tensor(x, {4, 4}), .y = Tensor(y, {2, 2}), .window = kSlice}, {x.data()}, {y.data()});
  EXPECT_EQ(y, (Ints{14, 16, 6, 8}));
}

TEST(CppSlice, TheStridesDefaultToOne) {
  const Ints x{1, 2, 3, 4};
  Ints y = unwritten<std::int32_t>(2);
  backpass::slice(Tensor(x, {4}), Tensor(y, {2}), {.offsets = {1}, .sizes = {2}});
  EXPECT_EQ(y, (Ints{2, 3}));
}

TEST(CppSliceGrad, InOneCallAndPlanned) {
  const Ints dy{1, 2, 3, 4}, expected{0, 0, 0, 0, 0, 3, 0, 4, 0, 0, 0, 0, 0, 1, 0, 2};
  Ints dx = unwritten<std::int32_t>(16);
  backpass::slice_grad(Tensor(dy, {2, 2}), Tensor(dx, {4, 4}), kSlice);
  EXPECT_EQ(dx, expected);
  dx = unwritten<std::int32_t>(16);
  run(SliceGrad{.dy = Tensor(dy, {2, 2}), .dx = Tensor(dx, {4, 4}), .window = kSlice}, {dy.data()}, {dx.data()});
  EXPECT_EQ(dx, expected);
}

}  // namespace
}  // namespace cpp_api
