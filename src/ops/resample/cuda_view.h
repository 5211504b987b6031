// SPDX-License-Identifier: Apache-2.0
// A tensor as kernels see it: one stride for each role.
#pragma once

#include <cstdint>

namespace bp::cuda {

template <class T>
struct ResampleView {
  T* data;
  std::int64_t batch, channel, depth, row, column;  // strides in elements
};
template <class T, class Data>
ResampleView<T> typed(const ResampleView<Data>& view) {
  return {static_cast<T*>(view.data), view.batch, view.channel, view.depth, view.row, view.column};
}

// So many elements move in one access: of what is read, and of what is written.
struct Together {
  int in, out;
};

}  // namespace bp::cuda
