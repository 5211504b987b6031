// SPDX-License-Identifier: Apache-2.0
#include "oracle/numbers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace tools::oracle {
namespace {

int bit_width(int32_t dtype) {
  constexpr std::array<int, 13> widths{0, 64, 32, 16, 16, 64, 32, 16, 8, 64, 32, 16, 8};  // in the order of bp_dtype
  return widths[at(dtype)];
}

bool is_signed_integer(int32_t dtype) { return dtype >= BP_I64 && dtype <= BP_I8; }

i128 least_integer(int32_t dtype) { return is_signed_integer(dtype) ? -(i128{1} << (bit_width(dtype) - 1)) : i128{0}; }

i128 greatest_integer(int32_t dtype) { return least_integer(dtype) + (i128{1} << bit_width(dtype)) - 1; }

struct FloatFormat {
  int exponent_bits;
  int fraction_bits;

  [[nodiscard]] int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  [[nodiscard]] int least_exponent() const { return 1 - bias(); }
  [[nodiscard]] uint64_t one() const { return uint64_t{1} << fraction_bits; }
  [[nodiscard]] uint64_t sign() const { return one() << exponent_bits; }
  [[nodiscard]] uint64_t infinity() const { return sign() - one(); }
};

FloatFormat float_format(int32_t dtype) {
  if (dtype == BP_F64) return {11, 52};
  if (dtype == BP_F32) return {8, 23};
  if (dtype == BP_F16) return {5, 10};
  return {8, 7};
}

// Exact: a double holds every value of all four formats.
double float_value(uint64_t bits, FloatFormat format) {
  const uint64_t magnitude = bits % format.sign();
  const uint64_t fraction = magnitude % format.one();
  const int exponent_field = static_cast<int>(magnitude / format.one());
  const double sign = bits < format.sign() ? 1 : -1;
  if (magnitude > format.infinity()) return std::numeric_limits<double>::quiet_NaN();
  if (magnitude == format.infinity()) return sign * std::numeric_limits<double>::infinity();
  const int exponent = std::max(exponent_field - format.bias(), format.least_exponent());
  const uint64_t units = exponent_field == 0 ? fraction : format.one() + fraction;
  return sign * std::ldexp(static_cast<double>(units), exponent - format.fraction_bits);
}

// One rounding, to nearest even: scaled so that the format's last place is worth 1, the value is rounded to an integer.
// Scaling by a power of two is exact here, because it never leads into the subnormal doubles.
uint64_t float_bits(double value, FloatFormat format) {
  if (std::isnan(value)) return format.infinity() + format.one() / 2;
  const uint64_t sign = std::signbit(value) ? format.sign() : 0;
  const double magnitude = std::fabs(value);
  if (std::isinf(value)) return sign + format.infinity();
  if (magnitude == 0) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude is in [2^(exponent - 1), 2^exponent)
  exponent = std::max(exponent - 1, format.least_exponent());
  auto units = static_cast<uint64_t>(std::nearbyint(std::ldexp(magnitude, format.fraction_bits - exponent)));
  if (units == 2 * format.one()) {  // rounded up to the next power of two
    units = format.one();
    ++exponent;
  }
  if (units < format.one()) return sign + units;  // subnormal, or rounded to zero
  if (exponent > format.bias()) return sign + format.infinity();
  return sign + static_cast<uint64_t>(exponent + format.bias()) * format.one() + (units - format.one());
}

}  // namespace

int64_t element_count(const Ints& sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

Dense zeros(int32_t dtype, const Ints& sizes) { return {dtype, sizes, Bits(at(element_count(sizes)), 0)}; }

bool is_float(int32_t dtype) { return dtype >= BP_F64 && dtype <= BP_BF16; }

uint64_t all_ones(int32_t dtype) { return std::numeric_limits<uint64_t>::max() >> (64 - bit_width(dtype)); }

uint64_t lowest_bits(int32_t dtype) {
  if (is_float(dtype)) return stored_bits(-std::numeric_limits<double>::infinity(), dtype);
  return integer_bits(least_integer(dtype), dtype);
}

i128 integer_value(uint64_t bits, int32_t dtype) {
  const i128 two_to_width = i128{1} << bit_width(dtype);
  const bool negative = is_signed_integer(dtype) && bits >= static_cast<uint64_t>(two_to_width / 2);
  return negative ? bits - two_to_width : i128{bits};
}

uint64_t integer_bits(i128 value, int32_t dtype) { return static_cast<uint64_t>(value) & all_ones(dtype); }

double real_value(uint64_t bits, int32_t dtype) {
  return is_float(dtype) ? float_value(bits, float_format(dtype)) : static_cast<double>(integer_value(bits, dtype));
}

uint64_t stored_bits(double value, int32_t dtype) {
  if (is_float(dtype)) return float_bits(value, float_format(dtype));
  if (std::isnan(value)) return 0;
  const auto least = static_cast<double>(least_integer(dtype));
  const auto greatest = static_cast<double>(greatest_integer(dtype));
  const double whole = std::clamp(std::nearbyint(value), least, greatest);
  return integer_bits(static_cast<i128>(whole), dtype);
}

}  // namespace tools::oracle
