// SPDX-License-Identifier: Apache-2.0
// Division by a number that is known at create, as a multiplication: a device has no instruction that divides integers.
//
// For a divisor d let s be the least with d <= 2^s, b the bits of Unsigned less 1, and m = ceil(2^(b+s) / d), which
// fits. Then n / d = floor(n * m / 2^(b+s)) for every n < 2^b, since m * d exceeds 2^(b+s) by less than d <= 2^s.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace bp::cuda {

constexpr std::uint32_t divide_up(std::int64_t a, std::int64_t b) {
  return static_cast<std::uint32_t>((a + b - 1) / b);
}

__extension__ typedef unsigned __int128 UInt128;

constexpr std::uint32_t multiply_high(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>((std::uint64_t{a} * b) >> 32);
}
constexpr std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::uint64_t>((UInt128{a} * b) >> 64);
}

template <class Unsigned>
struct Divisor {
  static_assert(std::is_unsigned_v<Unsigned>);
  Unsigned value = 1;
  Unsigned multiplier = Unsigned{1} << (std::numeric_limits<Unsigned>::digits - 1);
  int shift = 0;

  Divisor() = default;
  // 1 <= divisor < 2^b
  explicit constexpr Divisor(std::int64_t divisor) : value(static_cast<Unsigned>(divisor)) {
    shift = static_cast<int>(std::bit_width(static_cast<Unsigned>(value - 1)));
    const UInt128 power = UInt128{1} << (std::numeric_limits<Unsigned>::digits - 1 + shift);
    multiplier = static_cast<Unsigned>((power + value - 1) / value);
  }

  // n < 2^b
  [[nodiscard]] constexpr Unsigned quotient(Unsigned n) const {
    return multiply_high(static_cast<Unsigned>(n << 1), multiplier) >> shift;
  }
  // The remainder; n becomes the quotient.
  [[nodiscard]] constexpr Unsigned split(Unsigned& n) const {
    const Unsigned all = n;
    n = quotient(all);
    return all - n * value;
  }
};

}  // namespace bp::cuda
