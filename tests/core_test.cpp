// SPDX-License-Identifier: Apache-2.0
// The core: conversions of the half types, arithmetic that is not contracted, views that meet or do not.
#include "core/cache_size.h"
#include "core/checked.h"
#include "core/dtype.h"
#include "core/tensor.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

using bp::Sharing;
using bp::Tensor;

// ---- Caches ---------------------------------------------------------------------------------------------

TEST(Cache, ItsSharersAreCounted) {
  const auto count = [](const std::string& list) {
    std::istringstream text(list);
    return bp::processors_in(text);
  };
  EXPECT_EQ(count("0\n"), 1u);
  EXPECT_EQ(count("0-1\n"), 2u);
  EXPECT_EQ(count("0-3,8-11\n"), 8u);
  EXPECT_EQ(count("0,2,4-7\n"), 6u);
  EXPECT_EQ(count(""), 0u);
}

// ---- f16 and bf16 --------------------------------------------------------------------------------------

// A format's value from its definition, in f64, which holds all of them.
double value(std::uint32_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto mantissa = static_cast<double>(bits & ((1u << mantissa_bits) - 1));
  const auto exponent = static_cast<int>((bits >> mantissa_bits) & ((1u << exponent_bits) - 1));
  const double sign = ((bits >> (exponent_bits + mantissa_bits)) & 1) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return mantissa == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + std::ldexp(1, mantissa_bits), exponent - bias - mantissa_bits);
}

// Rounding by its definition: scale so that one unit of the result is 1, round to nearest even, scale back.
double rounded(float v, int exponent_bits, int mantissa_bits) {
  if (v == 0 || !std::isfinite(v)) return v;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int least = 1 - bias;  // exponent of the least normal number
  const int exponent = std::max(std::ilogb(v), least);
  const double result = std::ldexp(std::nearbyint(std::ldexp(static_cast<double>(v), mantissa_bits - exponent)),
                                   exponent - mantissa_bits);
  const double largest = std::ldexp(2 - std::ldexp(1, -mantissa_bits), bias);
  return std::abs(result) > largest ? std::copysign(INFINITY, v) : result;
}

bool same(double a, double b) { return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b); }

TEST(Half, EveryF16WidensExactly) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    ASSERT_TRUE(same(bp::to_f32(bp::f16{static_cast<std::uint16_t>(bits)}), value(bits, 5, 10))) << bits;
  }
}
TEST(Half, EveryBf16WidensExactly) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    ASSERT_TRUE(same(bp::to_f32(bp::bf16{static_cast<std::uint16_t>(bits)}), value(bits, 8, 7))) << bits;
  }
}
TEST(Half, EveryValueSurvivesTheWayThroughF32) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto b = static_cast<std::uint16_t>(bits);
    if (!bp::is_nan(bp::f16{b})) {
      ASSERT_EQ(bp::to_f16(bp::to_f32(bp::f16{b})).bits, b);
    }
    if (!bp::is_nan(bp::bf16{b})) {
      ASSERT_EQ(bp::to_bf16(bp::to_f32(bp::bf16{b})).bits, b);
    }
  }
}

void check_narrowing(std::uint32_t bits) {
  const auto v = std::bit_cast<float>(bits);
  ASSERT_TRUE(same(value(bp::to_f16(v).bits, 5, 10), rounded(v, 5, 10))) << std::hex << bits;
  ASSERT_TRUE(same(value(bp::to_bf16(v).bits, 8, 7), rounded(v, 8, 7))) << std::hex << bits;
}

TEST(Half, NarrowingRoundsToNearestEven) {
  for (std::uint64_t bits = 0; bits < 0x100000000; bits += 1021) check_narrowing(static_cast<std::uint32_t>(bits));
  // Around every tie and every value of both formats.
  for (std::uint32_t half = 0; half < 0x10000; ++half) {
    for (const std::uint32_t center :
         {half << 16, (half << 16) | 0x8000u,
          std::bit_cast<std::uint32_t>(bp::to_f32(bp::f16{static_cast<std::uint16_t>(half)})),
          std::bit_cast<std::uint32_t>(bp::to_f32(bp::f16{static_cast<std::uint16_t>(half)})) + 0x1000u}) {
      for (const std::uint32_t step : {0u, 1u, 0xffffffffu}) check_narrowing(center + step);
    }
  }
}

// All 2^32, fast enough to be done: the result must be the nearest of all values, the even one of two equally near.
class Nearest {
 public:
  Nearest(int exponent_bits, int mantissa_bits) : infinity_(((1u << exponent_bits) - 1) << mantissa_bits) {
    for (std::uint32_t bits = 0; bits <= infinity_; ++bits)
      values_.push_back(value(bits, exponent_bits, mantissa_bits));
    // Beyond the largest value there is one more step to what would be next, were the exponent not spent.
    values_[infinity_] = 2 * values_[infinity_ - 1] - values_[infinity_ - 2];
  }
  [[nodiscard]] bool operator()(float v, std::uint32_t bits) const {
    if (std::isnan(v)) return (bits & 0x7fffu) > infinity_;
    if (std::signbit(v) != ((bits & 0x8000u) != 0)) return false;
    const std::uint32_t b = bits & 0x7fffu;
    const double magnitude = std::fabs(static_cast<double>(v));
    if (magnitude >= values_[infinity_]) return b == infinity_;
    if (b > infinity_) return false;
    const double here = std::fabs(magnitude - values_[b]);
    const bool even = (b & 1) == 0;
    const double below = b == 0 ? INFINITY : magnitude - values_[b - 1];
    const double above = b == infinity_ ? INFINITY : values_[b + 1] - magnitude;
    return (here < below || (here == below && even)) && (here < above || (here == above && even));
  }

 private:
  std::uint32_t infinity_;
  std::vector<double> values_;
};

TEST(Half, AllF32ValuesNarrow) {
  if (std::getenv("BACKPASS_TEST_FULL") == nullptr) GTEST_SKIP() << "4 billion values: make test-full";
  const Nearest nearest_f16(5, 10), nearest_bf16(8, 7);
  for (std::uint64_t bits = 0; bits < 0x100000000; ++bits) {
    const auto v = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    ASSERT_TRUE(nearest_f16(v, bp::to_f16(v).bits)) << std::hex << bits;
    ASSERT_TRUE(nearest_bf16(v, bp::to_bf16(v).bits)) << std::hex << bits;
  }
}

// ---- Arithmetic ----------------------------------------------------------------------------------------

// Were a product and a sum fused, or kept wider, the first would be 2^-46 and not 0.
TEST(Arithmetic, IsNotContracted) {
  volatile float a = 1 + 0x1p-23f;
  volatile float b = 1 + 0x1p-22f;  // a * a rounds to this
  const float product = a * a;
  EXPECT_EQ(product - b, 0.0f);
  EXPECT_EQ(a * a - b, 0.0f);
  volatile double c = 1 + 0x1p-52;
  volatile double d = 1 + 0x1p-51;
  EXPECT_EQ(c * c - d, 0.0);
}

TEST(Checked, NoticesEveryOverflow) {
  EXPECT_EQ(bp::multiply(INT64_MAX, 2), std::nullopt);
  EXPECT_EQ(bp::add(INT64_MAX, 1), std::nullopt);
  EXPECT_EQ(bp::subtract(INT64_MIN, 1), std::nullopt);
  EXPECT_EQ(bp::magnitude(INT64_MIN), std::nullopt);
  EXPECT_EQ(bp::add(bp::multiply(INT64_MAX, 2), 1), std::nullopt);
  EXPECT_EQ(bp::multiply(1 << 20, 1 << 20), std::int64_t{1} << 40);
}

// ---- Views ---------------------------------------------------------------------------------------------

Tensor view(bp::DType dtype, std::vector<std::int64_t> sizes, std::vector<std::int64_t> strides) {
  Tensor t{.dtype = dtype, .rank = static_cast<int>(sizes.size())};
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    t.sizes[i] = sizes[i];
    t.strides[i] = strides[i];
  }
  return t;
}

std::set<std::int64_t> touched_bytes(const Tensor& t, std::int64_t base) {
  std::set<std::int64_t> bytes;
  std::vector<std::int64_t> index(static_cast<std::size_t>(t.rank), 0);
  const auto element = static_cast<std::int64_t>(bp::size_of(t.dtype));
  for (;;) {
    std::int64_t at = base;
    for (int i = 0; i < t.rank; ++i) at += index[static_cast<std::size_t>(i)] * t.strides[i] * element;
    for (std::int64_t b = 0; b < element; ++b) bytes.insert(at + b);
    int axis = t.rank;
    while (axis > 0 && ++index[static_cast<std::size_t>(axis - 1)] == t.sizes[axis - 1])
      index[static_cast<std::size_t>(--axis)] = 0;
    if (axis == 0) return bytes;
  }
}

TEST(Sharing, AgreesWithTheListOfBytes) {
  std::mt19937_64 random(17);
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  int meeting = 0;
  int interleaved = 0;
  for (int round = 0; round < 20'000; ++round) {
    const auto draw = [&] {
      const bp::DType types[] = {bp::DType::u8, bp::DType::f16, bp::DType::f32, bp::DType::f64};
      std::vector<std::int64_t> sizes, strides;
      for (std::int64_t i = between(1, 3); i > 0; --i) {
        sizes.push_back(between(1, 4));
        strides.push_back(between(-9, 9));
      }
      return view(types[random() % 4], sizes, strides);
    };
    const Tensor a = draw();
    const Tensor b = draw();
    const std::int64_t a_base = 4096;
    const std::int64_t b_base = 4096 + between(-60, 60);
    const auto a_bytes = touched_bytes(a, a_base);
    const auto b_bytes = touched_bytes(b, b_base);
    bool meets = false;
    for (const std::int64_t byte : a_bytes) meets = meets || b_bytes.count(byte) > 0;
    const Sharing found =
        bp::sharing(a, reinterpret_cast<const void*>(a_base), b, reinterpret_cast<const void*>(b_base));
    ASSERT_EQ(found, meets ? Sharing::yes : Sharing::no) << "round " << round;
    meeting += meets ? 1 : 0;
    const bool ranges_meet = *a_bytes.begin() <= *b_bytes.rbegin() && *b_bytes.begin() <= *a_bytes.rbegin();
    interleaved += !meets && ranges_meet ? 1 : 0;
  }
  EXPECT_GT(meeting, 1000);
  EXPECT_GT(interleaved, 1000);
}

TEST(Sharing, DecidesLargeInterleavedSlicesAtOnce) {
  const Tensor half = view(bp::DType::f32, {64, 32, 224, 224}, {2 * 32 * 224 * 224, 2 * 224 * 224, 224, 1});
  std::vector<float> memory(1);
  const auto* base = memory.data();
  EXPECT_EQ(bp::sharing(half, base, half, base + 224 * 224), Sharing::no);
  EXPECT_EQ(bp::sharing(half, base, half, base + 2 * 224 * 224), Sharing::yes);
  const Tensor pixels = view(bp::DType::f16, {16, 56, 56, 48}, {56 * 56 * 96, 56 * 96, 96, 1});
  EXPECT_EQ(bp::sharing(pixels, base, pixels, reinterpret_cast<const std::uint16_t*>(base) + 48), Sharing::no);
  EXPECT_EQ(bp::sharing(pixels, base, pixels, reinterpret_cast<const std::uint16_t*>(base) + 47), Sharing::yes);
}

TEST(Sharing, AnEmptyViewMeetsNothing) {
  const Tensor empty = view(bp::DType::f32, {0, 4}, {4, 1});
  const Tensor full = view(bp::DType::f32, {4}, {1});
  std::vector<float> memory(4);
  EXPECT_EQ(bp::sharing(empty, memory.data(), full, memory.data()), Sharing::no);
}

TEST(DTypes, VisitFindsEachTypeOnce) {
  for (const bp::DTypeFacts& entry : bp::kDTypes) {
    int visits = 0;
    EXPECT_TRUE(bp::visit(bp::AllTypes{}, entry.dtype, [&]<class T>() {
      ++visits;
      EXPECT_EQ(sizeof(T), entry.size);
      EXPECT_EQ(bp::kDTypeOf<T>, entry.dtype);
    }));
    EXPECT_EQ(visits, 1);
  }
  EXPECT_FALSE(bp::contains(bp::Floats{}, bp::DType::i8));
}

}  // namespace
