// SPDX-License-Identifier: Apache-2.0
// Loops over views on the CPU.
#pragma once

#include "core/tensor.h"

#include <cstdint>
#include <span>

namespace bp::cpu {

// The element of a view at an index.
inline std::int64_t offset(const Tensor& view, const Dims& index) {
  std::int64_t at = 0;
  for (int i = 0; i < view.rank; ++i) at += index[i] * view.strides[i];
  return at;
}

// Calls f(index) for every index below sizes, in row-major order.
template <class F>
void for_each_index(std::span<const std::int64_t> sizes, F&& f) {
  for (const std::int64_t size : sizes) {
    if (size == 0) return;
  }
  Dims index{};
  for (;;) {
    f(static_cast<const Dims&>(index));
    std::size_t axis = sizes.size();
    while (axis > 0 && ++index[axis - 1] == sizes[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

}  // namespace bp::cpu
