// SPDX-License-Identifier: Apache-2.0
// backpass.hpp: every way to make a tensor, and what is thrown when something is wrong.
#include "cpp_api_support.h"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <stdexcept>
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

namespace cpp_api {
namespace {

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

TEST(CppError, ARunWithoutItsPointersIsRefused) {
  const Operator op(pool_grad());
  Floats dx = unwritten(9);
  const Thrown error = thrown([&] { op.run({kX.data()}, {dx.data()}, workspace_for(op).data()); });
  EXPECT_EQ(error.code, Status::invalid_argument) << error.text;
  EXPECT_EQ(dx, unwritten(9)) << "nothing was written";
}

}  // namespace
}  // namespace cpp_api
