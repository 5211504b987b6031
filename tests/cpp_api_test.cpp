// SPDX-License-Identifier: Apache-2.0
// backpass.hpp: every operator in both forms, every way to make a tensor, and what is thrown when something is wrong.
#include <gtest/gtest.h>
#include <backpass/backpass.hpp>

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

// A half type that is not ours, as a user would bring it.
namespace foreign {
struct Half {
  std::uint16_t storage;
};
}  // namespace foreign
template <>
struct backpass::dtype_of<foreign::Half> : backpass::dtype_constant<backpass::DType::f16> {};

namespace {

using backpass::AxisTable;
using backpass::Convention;
using backpass::ConvertWinners;
using backpass::DType;
using backpass::Error;
using backpass::MaxPool;
using backpass::MaxPoolGrad;
using backpass::Mode;
using backpass::Nan;
using backpass::Operator;
using backpass::PoolOptions;
using backpass::Relu;
using backpass::ReluGrad;
using backpass::Resample;
using backpass::ResampleGrad;
using backpass::ResampleMap;
using backpass::Rounding;
using backpass::Slice;
using backpass::SliceGrad;
using backpass::SliceWindow;
using backpass::Status;
using backpass::Tensor;
using backpass::TensorDesc;
using backpass::Winners;

using Floats = std::vector<float>;
using Ints = std::vector<std::int32_t>;
using Dims = backpass::Dims;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// ---- The document's pooling example, on which most tests stand -----------------------------------------

const Floats kX{1, 2, 3, 2, 4, 2, 5, 6, 7}, kDy{1, 2, 4, 5}, kY{4, 4, 6, 7}, kDx{0, 0, 0, 0, 3, 0, 0, 4, 5};
const Dims kXSizes{1, 1, 3, 3}, kYSizes{1, 1, 2, 2};
const PoolOptions kPool{.window = {2, 2}, .strides = {1, 1}};
const TensorDesc kXDesc{.sizes = kXSizes}, kYDesc{.sizes = kYSizes};

MaxPoolGrad pool_grad() { return {.x = kXDesc, .dy = kYDesc, .dx = kXDesc, .window = kPool.as_window()}; }

// An output that shows what was not written.
template <class T = float>
std::vector<T> unwritten(std::size_t count) {
  return std::vector<T>(count, static_cast<T>(-77));
}

// A workspace of the size that the operator asks for.
std::vector<std::max_align_t> workspace_for(const Operator& op) {
  return std::vector<std::max_align_t>(op.workspace_size() / sizeof(std::max_align_t) + 1);
}

template <class Description>
void run(const Description& description, std::initializer_list<const void*> inputs,
         std::initializer_list<void*> outputs) {
  const Operator op(description);
  op.run(inputs, outputs, workspace_for(op).data());
}

struct Thrown {
  Status code = Status::ok;
  std::string text;

  bool operator==(const Thrown&) const = default;
  friend void PrintTo(const Thrown& t, std::ostream* out) { *out << static_cast<int>(t.code) << ": " << t.text; }
};

template <class Call>
Thrown thrown(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {Status::ok, "nothing was thrown"};
}

template <class Description>
Thrown refusal(const Description& description) {
  return thrown([&] { Operator{description}; });
}

Thrown invalid(const std::string& text) { return {Status::invalid_argument, text}; }

// ---- Every operator, in one call and planned -----------------------------------------------------------

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

// ---- Tensors -------------------------------------------------------------------------------------------

TEST(CppTensor, IsMadeOfWhateverLiesInOnePiece) {
  std::vector<float> vector{1, -2, 3};
  std::array<float, 3> array{1, -2, 3};
  float c_array[]{1, -2, 3};
  const std::span<const float> span(vector);
  const float* pointer = vector.data();
  const auto relu_of = [](const auto& x) {
    Floats y = unwritten(3);
    backpass::relu(x, Tensor(y, {3}));
    return y;
  };
  const Floats expected{1, 0, 3};
  EXPECT_EQ(relu_of(Tensor(vector, {3})), expected);
  EXPECT_EQ(relu_of(Tensor(std::as_const(vector), {3})), expected);
  EXPECT_EQ(relu_of(Tensor(array, {3})), expected);
  EXPECT_EQ(relu_of(Tensor(c_array, {3})), expected);
  EXPECT_EQ(relu_of(Tensor(span, {3})), expected);
  EXPECT_EQ(relu_of(Tensor(pointer, {3})), expected);
  EXPECT_EQ(relu_of(Tensor(vector.data(), {3})), expected);
}

TEST(CppTensor, KeepsConstAndKnowsItsType) {
  std::vector<double> vector(6);
  const Tensor writable(vector, {2, 3});
  const Tensor readable(std::as_const(vector), {2, 3});
  static_assert(std::is_same_v<decltype(writable.data()), double*>);
  static_assert(std::is_same_v<decltype(readable.data()), const double*>);
  EXPECT_EQ(writable.desc().dtype, DType::f64);
  EXPECT_EQ(readable.desc().dtype, DType::f64);
  EXPECT_EQ(readable.desc().sizes, (Dims{2, 3}));
  EXPECT_TRUE(readable.desc().strides.empty());
  EXPECT_EQ(readable.data(), vector.data());
}

TEST(CppTensor, IsNotMadeOfAContainerThatIsAboutToGo) {
  static_assert(std::is_constructible_v<Tensor<float>, std::vector<float>&, Dims>);
  static_assert(std::is_constructible_v<Tensor<float>, std::span<float>, Dims>);
  static_assert(!std::is_constructible_v<Tensor<float>, std::vector<float>, Dims>);
}

TEST(CppTensor, EveryElementTypeHasItsDType) {
  static_assert(backpass::dtype_of<double>::value == DType::f64 && backpass::dtype_of<float>::value == DType::f32);
  static_assert(backpass::dtype_of<backpass::f16>::value == DType::f16);
  static_assert(backpass::dtype_of<backpass::bf16>::value == DType::bf16);
  static_assert(backpass::dtype_of<std::int64_t>::value == DType::i64);
  static_assert(backpass::dtype_of<std::int32_t>::value == DType::i32);
  static_assert(backpass::dtype_of<std::int16_t>::value == DType::i16);
  static_assert(backpass::dtype_of<std::int8_t>::value == DType::i8);
  static_assert(backpass::dtype_of<std::uint64_t>::value == DType::u64);
  static_assert(backpass::dtype_of<std::uint32_t>::value == DType::u32);
  static_assert(backpass::dtype_of<std::uint16_t>::value == DType::u16);
  static_assert(backpass::dtype_of<std::uint8_t>::value == DType::u8);
  static_assert(backpass::Element<const float> && !backpass::Element<void*>);
}

TEST(CppTensor, MustHaveAsManyElementsAsItsSizesSay) {
  const Floats one(1), none;
  const auto made = [](const Floats& range, const Dims& sizes) { return thrown([&] { Tensor(range, sizes); }); };
  EXPECT_EQ(made(kX, {1, 1, 3, 2}),
            invalid("tensor: the range has 9 elements, expected the product of the sizes 1,1,3,2"));
  EXPECT_EQ(made(kX, {10}), invalid("tensor: the range has 9 elements, expected the product of the sizes 10"));
  EXPECT_EQ(made(kX, {9, 0}), invalid("tensor: the range has 9 elements, expected the product of the sizes 9,0"));
  EXPECT_EQ(made(one, {2, 3}), invalid("tensor: the range has 1 element, expected the product of the sizes 2,3"));
  // 2^64 elements are not 0 of them.
  EXPECT_EQ(made(none, {std::int64_t{1} << 62, 4}),
            invalid("tensor: the range has 0 elements, expected the product of the sizes 4611686018427387904,4"));
  EXPECT_NO_THROW(Tensor(none, {3, 0, 2}));
}

TEST(CppTensor, MayBeAStridedView) {
  // x transposed, y every second element, from the back.
  const Floats x{1, -2, 3, -4, 5, -6};
  Floats y = unwritten(12);
  backpass::relu(Tensor(x.data(), {3, 2}, {1, 3}), Tensor(y.data() + 11, {3, 2}, {-4, -2}));
  EXPECT_EQ(y, (Floats{-77, 0, -77, 3, -77, 5, -77, 0, -77, 0, -77, 1}));
}

TEST(CppTensor, ChannelsLastIsAMatterOfStrides) {
  // Two channels side by side: the example, and the example negated.
  Floats x, dx = unwritten(18), dy;
  for (const float v : kX) x.insert(x.end(), {v, -v});
  for (const float v : kDy) dy.insert(dy.end(), {v, v});
  backpass::max_pool_grad(Tensor(x.data(), {1, 2, 3, 3}, {18, 1, 6, 2}), Tensor(dy.data(), {1, 2, 2, 2}, {8, 1, 4, 2}),
                          Tensor(dx.data(), {1, 2, 3, 3}, {18, 1, 6, 2}), kPool);
  Floats first, second;
  for (std::size_t i = 0; i < dx.size(); i += 2) {
    first.push_back(dx[i]);
    second.push_back(dx[i + 1]);
  }
  EXPECT_EQ(first, kDx);
  EXPECT_EQ(second, (Floats{1, 2, 0, 4, 0, 5, 0, 0, 0}));
}

template <class Half>
std::vector<Half> halves(std::initializer_list<unsigned> bits) {
  std::vector<Half> result;
  for (const unsigned b : bits) result.push_back(Half{static_cast<std::uint16_t>(b)});
  return result;
}

TEST(CppTensor, HalfTypesAreTheirBits) {
  const auto winners = std::to_array<std::uint8_t>({0, 0});
  const PoolOptions pool{.window = {1}, .strides = {1}};
  const auto relu_bits = [](auto x) {
    backpass::relu(Tensor(x, {3}), Tensor(x, {3}));
    return std::array{x[0].bits, x[1].bits, x[2].bits};
  };
  EXPECT_EQ(relu_bits(halves<backpass::f16>({0x3c00, 0xbc00, 0x7e01})),
            (std::array<std::uint16_t, 3>{0x3c00, 0, 0x7e01}));
  EXPECT_EQ(relu_bits(halves<backpass::bf16>({0x3f80, 0xbf80, 0x7fc1})),
            (std::array<std::uint16_t, 3>{0x3f80, 0, 0x7fc1}));

  // 1 + 2^-8 is halfway between two bf16 values and exact in f16: the types are not mistaken for one another.
  const auto dy16 = halves<backpass::f16>({0x3c00, 0x1c00});
  const auto dyb = halves<backpass::bf16>({0x3f80, 0x3b80});
  auto dx16 = halves<backpass::f16>({0xffff});
  auto dxb = halves<backpass::bf16>({0xffff});
  const ResampleMap nearest{.mode = Mode::nearest};
  backpass::resample_grad(Tensor(dy16, {2}), Tensor(dx16, {1}), nearest);
  backpass::resample_grad(Tensor(dyb, {2}), Tensor(dxb, {1}), nearest);
  EXPECT_EQ(dx16[0].bits, 0x3c04);
  EXPECT_EQ(dxb[0].bits, 0x3f80);

  auto moved = halves<backpass::bf16>({0xffff, 0xffff});
  backpass::max_pool_grad_from(Tensor(winners, {1, 1, 2}), Tensor(dyb, {1, 1, 2}), Tensor(moved, {1, 1, 2}), pool);
  EXPECT_EQ(moved[0].bits, 0x3f80);
  EXPECT_EQ(moved[1].bits, 0x3b80);
}

TEST(CppTensor, AForeignHalfTypeNeedsOneLine) {
  const auto x = halves<foreign::Half>({0x3c00, 0xbc00, 0x0001});
  auto y = halves<foreign::Half>({0xffff, 0xffff, 0xffff});
  const Tensor view(x, {3});
  EXPECT_EQ(view.desc().dtype, DType::f16);
  backpass::relu(view, Tensor(y, {3}));
  EXPECT_EQ(y[0].storage, 0x3c00);
  EXPECT_EQ(y[1].storage, 0);
  EXPECT_EQ(y[2].storage, 1);
}

// ---- Errors --------------------------------------------------------------------------------------------

TEST(CppError, HasTheLibrarysCodeAndSentence) {
  EXPECT_EQ(refusal(Relu{.x = {.sizes = {4}}, .y = {.sizes = {5}}}),
            invalid("relu: y: axis 0: size is 5, expected 4 (that of x)"));
  const TensorDesc bytes{.dtype = DType::u8, .sizes = {4}};
  EXPECT_EQ(refusal(Relu{.x = bytes, .y = bytes}).code, Status::unsupported);
}

TEST(CppError, IsARuntimeError) { EXPECT_THROW(Operator(Relu{}), std::runtime_error); }

TEST(CppError, NeitherXNorWinnersIsRefusedByTheLibrary) {
  MaxPoolGrad grad = pool_grad();
  grad.x.reset();
  EXPECT_EQ(refusal(grad).code, Status::invalid_argument);
}

TEST(CppError, ListsOfTheWrongLengthAreRefused) {
  const auto with = [](auto change) {
    MaxPoolGrad grad = pool_grad();
    change(grad);
    return refusal(grad);
  };
  EXPECT_EQ(with([](MaxPoolGrad& g) { g.window.strides = {1}; }),
            invalid("max_pool_grad: strides: has 1 entry, expected 2"));
  EXPECT_EQ(with([](MaxPoolGrad& g) {
              g.window.start_padding = {0, 0, 0};
            }),
            invalid("max_pool_grad: start_padding: has 3 entries, expected 2"));
  EXPECT_EQ(with([](MaxPoolGrad& g) { g.window.end_padding = {0}; }),
            invalid("max_pool_grad: end_padding: has 1 entry, expected 2"));
  EXPECT_EQ(with([](MaxPoolGrad& g) { g.window.dilations = {1}; }),
            invalid("max_pool_grad: dilations: has 1 entry, expected 2"));
  EXPECT_EQ(with([](MaxPoolGrad& g) {
              g.dy.strides = {2, 1};
            }),
            invalid("max_pool_grad: dy: strides has 2 entries, expected 4"));
  EXPECT_EQ(with([](MaxPoolGrad& g) { g.x->strides = {1}; }),
            invalid("max_pool_grad: x: strides has 1 entry, expected 4"));
  EXPECT_EQ(with([](MaxPoolGrad& g) { g.window = {.size = {2}, .strides = {1}}; }).code, Status::invalid_argument)
      << "the library counts the window against the tensors";
}

TEST(CppError, ListsOfTheWrongLengthAreRefusedForConvertWinners) {
  ConvertWinners convert{.from = {.dtype = DType::u32, .sizes = kYSizes},
                         .to = {.dtype = DType::u8, .sizes = kYSizes},
                         .x_sizes = {3, 3},
                         .window = kPool.as_window(),
                         .from_kind = Winners::flat,
                         .to_kind = Winners::compact};
  EXPECT_EQ(refusal(convert), invalid("convert_winners: x_sizes: has 2 entries, expected 4"));
  convert.x_sizes.clear();
  EXPECT_EQ(refusal(convert).code, Status::invalid_argument);
}

// A gradient's refusal is the forward operator's but for the name; returns that of the forward one.
Thrown same_refusal(const std::string& op, const Thrown& forward, const Thrown& grad) {
  EXPECT_EQ(forward.code, grad.code);
  EXPECT_EQ(forward.text.substr(0, op.size() + 2), op + ": ");
  EXPECT_EQ(grad.text, op + "_grad" + forward.text.substr(op.size()));
  return forward;
}

TEST(CppError, ListsOfTheWrongLengthAreRefusedForResample) {
  const auto with = [](const ResampleMap& map) {
    return same_refusal("resample", refusal(Resample{.x = {.sizes = {2, 2}}, .y = {.sizes = {1, 3}}, .map = map}),
                        refusal(ResampleGrad{.dy = {.sizes = {1, 3}}, .dx = {.sizes = {2, 2}}, .map = map}));
  };
  EXPECT_EQ(with({.scales = {0.5}}), invalid("resample: scales: has 1 entry, expected 2"));
  EXPECT_EQ(with({.scales = {0.5, 1.5}, .input_offsets = {0}}),
            invalid("resample: input_offsets: has 1 entry, expected 2"));
  EXPECT_EQ(with({.scales = {0.5, 1.5}, .output_offsets = {0, 0, 0}}),
            invalid("resample: output_offsets: has 3 entries, expected 2"));
  EXPECT_EQ(with({.tables = {{.first = {0}, .count = {1}, .weights = {1}}}}),
            invalid("resample: tables: has 1 entry, expected 2"));
  EXPECT_EQ(with({.tables = {{.first = {0, 1}, .count = {1, 1}, .weights = {1, 1}}, {}}}),
            invalid("resample: tables: axis 0: first has 2 entries, expected 1"));
  EXPECT_EQ(with({.tables = {{}, {.first = {0, 1, 1}, .count = {1, 1}, .weights = {1, 1}}}}),
            invalid("resample: tables: axis 1: count has 2 entries, expected 3"));
  EXPECT_EQ(
      refusal(Resample{
          .x = {.sizes = {2}}, .y = {.sizes = {1}}, .map = {.tables = {{.first = {0}, .count = {2}, .weights = {1}}}}}),
      invalid("resample: tables: axis 0: weight_count is 1, expected the sum of count (2)"));
}

TEST(CppError, ListsOfTheWrongLengthAreRefusedForSlice) {
  const auto with = [](const SliceWindow& window) {
    return same_refusal("slice", refusal(Slice{.x = {.sizes = {4, 4}}, .y = {.sizes = {2, 2}}, .window = window}),
                        refusal(SliceGrad{.dy = {.sizes = {2, 2}}, .dx = {.sizes = {4, 4}}, .window = window}));
  };
  EXPECT_EQ(with({.offsets = {0, 0}, .sizes = {2}}), invalid("slice: sizes: has 1 entry, expected 2"));
  EXPECT_EQ(with({.offsets = {0, 0}, .sizes = {2, 2}, .strides = {1}}),
            invalid("slice: strides: has 1 entry, expected 2"));
  EXPECT_EQ(
      refusal(Slice{.x = {.sizes = {4, 4}}, .y = {.sizes = {2, 2}}, .window = {.offsets = {0}, .sizes = {2}}}).code,
      Status::invalid_argument)
      << "the library counts the window against the tensors";
}

TEST(CppError, HalfATableAndAWindowWithoutOffsetsAreRefused) {
  const ResampleMap half{.tables = {{.first = {}, .count = {1, 1}, .weights = {1, 1}}}};
  EXPECT_EQ(refusal(Resample{.x = {.sizes = {4}}, .y = {.sizes = {2}}, .map = half}),
            invalid("resample: tables: axis 0: first is empty although count or weights are given"));
  EXPECT_EQ(refusal(Slice{.x = {.sizes = {4}}, .y = {.sizes = {2}}, .window = {.sizes = {2}}}),
            invalid("slice: offsets: is null, expected 1 entry"));
}

// What cannot be at all is refused by the library, in its words, whatever lists stand beside it.
TEST(CppError, NegativeSizesMissingAxesAndEmptyWindowsAreTheLibrarysToRefuse) {
  const Floats none;
  EXPECT_EQ(refusal(Relu{.x = Tensor(none, {-2, 3}), .y = Tensor(none, {-2, 3})}),
            invalid("relu: x: axis 0: size is -2, expected 0 or more"));
  EXPECT_EQ(refusal(Relu{.x = {.strides = {1}}, .y = {}}), invalid("relu: x: rank is 0, expected 1 to 8"));
  MaxPoolGrad grad = pool_grad();
  grad.window = {.strides = {1, 1}};
  EXPECT_EQ(refusal(grad), invalid("max_pool_grad: window: spatial_rank is 0, expected 2 (rank 4 of dx less 2)"));
  const ConvertWinners convert{.from = {.dtype = DType::u32, .sizes = kYSizes},
                               .to = {.dtype = DType::u8, .sizes = kYSizes},
                               .x_sizes = kXSizes,
                               .from_kind = Winners::flat,
                               .to_kind = Winners::compact};
  EXPECT_EQ(refusal(convert),
            invalid("convert_winners: window: spatial_rank is 0, expected 2 (rank 4 of from less 2)"));
  EXPECT_EQ(refusal(Slice{.x = {.sizes = {4}}, .y = {.sizes = {2}}, .window = {.strides = {1}}}),
            invalid("slice: window: rank is 0, expected 1 (that of x)"));

  const AxisTable table{.first = {0, 1}, .count = {1, 1}, .weights = {1, 1}};
  EXPECT_EQ(refusal(Resample{.x = {.sizes = {4}}, .y = {.sizes = {-2}}, .map = {.tables = {table}}}),
            invalid("resample: y: axis 0: size is -2, expected 0 or more"));
  EXPECT_EQ(refusal(Resample{.x = {.sizes = {4, 4}}, .y = {.sizes = {2}}, .map = {.tables = {table, table}}}),
            invalid("resample: y: rank is 1, expected 2 (that of x)"));
  EXPECT_EQ(refusal(Resample{.x = {.sizes = {4}}, .y = {.sizes = {0}}, .map = {.tables = {table}}}),
            invalid("resample: tables: axis 0: first has 2 entries, expected 0"));
}

TEST(CppError, OnlyDescriptionsMakeOperators) {
  static_assert(!std::is_constructible_v<Operator, int>);
  static_assert(std::is_constructible_v<Operator, SliceGrad>);
}

TEST(CppOneCall, ConvertWinners) {
  const std::vector<std::uint8_t> compact{3, 2, 3, 3};
  std::vector<std::int64_t> flat(4);
  backpass::convert_winners(Tensor(compact, {1, 1, 2, 2}), Winners::compact, Tensor(flat, {1, 1, 2, 2}), Winners::flat,
                            {1, 1, 3, 3}, {.window = {2, 2}, .strides = {1, 1}});
  EXPECT_EQ(flat, (std::vector<std::int64_t>{4, 4, 7, 8}));
}

TEST(CppError, ARunWithoutItsPointersIsRefused) {
  const Operator op(pool_grad());
  Floats dx = unwritten(9);
  const Thrown error = thrown([&] { op.run({kX.data()}, {dx.data()}, workspace_for(op).data()); });
  EXPECT_EQ(error.code, Status::invalid_argument) << error.text;
  EXPECT_EQ(dx, unwritten(9)) << "nothing was written";
}

// ---- Operators -----------------------------------------------------------------------------------------

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
  int calls = 0;
  for (const backpass::Options& options :
       {backpass::Options{.threads = 1}, backpass::Options{.threads = 3},
        backpass::Options{.parallel_for = count_and_run, .parallel_for_context = &calls}}) {
    const Operator op(pool_grad(), backpass::Device::cpu(), options);
    Floats dx = unwritten(9);
    op.run({kX.data(), kDy.data()}, {dx.data()}, workspace_for(op).data());
    EXPECT_EQ(dx, kDx);
  }
}

}  // namespace
