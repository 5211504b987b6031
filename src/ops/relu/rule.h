// SPDX-License-Identifier: Apache-2.0
// ReLU of one element: written here once, for the reference and for kernels.
#pragma once

#include "core/dtype.h"

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace bp {

// Of a float as an unsigned number: its sign is the highest bit, and above infinity there are NaNs.
template <class T>
constexpr auto float_bits(T v) {
  if constexpr (sizeof(T) == 8) {
    return std::bit_cast<std::uint64_t>(v);
  } else if constexpr (sizeof(T) == 4) {
    return std::bit_cast<std::uint32_t>(v);
  } else {
    return v.bits;
  }
}

template <class T>
inline constexpr auto kInfinityOf = [] {
  if constexpr (std::is_floating_point_v<T>) {
    return float_bits(std::numeric_limits<T>::infinity());
  } else {
    return kInfinityBits<T>;
  }
}();

template <class T>
constexpr bool is_positive(T v) {
  if constexpr (std::is_integral_v<T>) {
    return v > 0;
  } else {
    return float_bits(v) != 0 && float_bits(v) <= kInfinityOf<T>;
  }
}

// -0 and everything below, but no NaN. The bits decide: a comparison of floats would let a compiler take the greater of
// x and 0 in one instruction, and some devices' does not keep the bits of a NaN.
template <class T>
constexpr bool is_cut_off(T v) {
  if constexpr (std::is_integral_v<T>) {
    return v < 0;
  } else {
    using Bits = decltype(float_bits(v));
    constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(T) - 1));
    return static_cast<Bits>(float_bits(v) - kSign) <= kInfinityOf<T>;
  }
}

template <class T>
constexpr T relu_of(T x) {
  return is_cut_off(x) ? T{} : x;
}

template <class T>
constexpr T relu_grad_of(T x, T dy, bool nan_passes) {
  return is_positive(x) || (nan_passes && is_nan(x)) ? dy : T{};
}

}  // namespace bp
