// SPDX-License-Identifier: Apache-2.0
// ReLU of one element: written here once, for the reference and for kernels.
#pragma once

#include "core/dtype.h"

namespace bp {

template <class T>
constexpr bool is_positive(T v) {
  if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
    return v.bits != 0 && v.bits <= kInfinityBits<T>;  // a sign would be the highest bit
  } else {
    return v > 0;
  }
}

template <class T>
constexpr T relu_of(T x) {
  return is_positive(x) || is_nan(x) ? x : T{};
}

template <class T>
constexpr T relu_grad_of(T x, T dy, bool nan_passes) {
  return is_positive(x) || (nan_passes && is_nan(x)) ? dy : T{};
}

}  // namespace bp
