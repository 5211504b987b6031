// SPDX-License-Identifier: Apache-2.0
// The axes of several views of one shape as the shortest loop nest that visits them all: axes of size 1 are dropped,
// axes that follow each other in every view become one, and the order is that of the first view's memory.
#pragma once

#include "core/tensor.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

namespace bp {

template <std::size_t kViews>
struct Nest {
  int rank = 0;  // at least 1 once made
  Dims sizes{};
  std::array<Dims, kViews> strides{};
  std::array<std::int64_t, kViews> start{};  // of the walk, from each view's first element

  // The innermost axis.
  [[nodiscard]] std::int64_t run() const { return sizes[rank - 1]; }
  [[nodiscard]] std::int64_t run_stride(std::size_t view) const { return strides[view][rank - 1]; }
  [[nodiscard]] bool runs_are_contiguous() const {
    for (const Dims& s : strides) {
      if (s[rank - 1] != 1) return false;
    }
    return true;
  }
  [[nodiscard]] std::int64_t count() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= sizes[i];
    return n;
  }
};

// The first view is the one whose memory decides the order: the output. Upwards: and in which every axis is walked from
// its lowest address on.
template <bool kUpwards = false, class... More>
Nest<1 + sizeof...(More)> make_nest(const Tensor& first, const More&... more) {
  constexpr std::size_t kViews = 1 + sizeof...(More);
  const std::array<const Tensor*, kViews> views{&first, &more...};
  std::array<int, kMaxRank> order{};
  int axes = 0;
  for (int i = 0; i < first.rank; ++i) {
    if (first.sizes[i] != 1) order[axes++] = i;
  }
  std::stable_sort(order.begin(), order.begin() + axes,
                   [&](int a, int b) { return std::abs(first.strides[a]) > std::abs(first.strides[b]); });
  Nest<kViews> nest;
  for (int i = 0; i < axes; ++i) {
    const int axis = order[i];
    const std::int64_t size = first.sizes[axis];
    const std::int64_t sign = kUpwards && first.strides[axis] < 0 ? -1 : 1;
    bool follows = nest.rank > 0;
    for (std::size_t v = 0; v < kViews; ++v) {
      const std::int64_t stride = views[v]->strides[axis];
      follows = follows && nest.strides[v][nest.rank - 1] == sign * stride * size;
      if (sign < 0) nest.start[v] += stride * (size - 1);
    }
    if (follows) {
      --nest.rank;  // the axis before it grows, and walks with the strides of this one
      nest.sizes[nest.rank] *= size;
    } else {
      nest.sizes[nest.rank] = size;
    }
    for (std::size_t v = 0; v < kViews; ++v) nest.strides[v][nest.rank] = sign * views[v]->strides[axis];
    ++nest.rank;
  }
  if (nest.rank == 0) {
    nest.rank = 1;
    nest.sizes[0] = 1;
    for (Dims& s : nest.strides) s[0] = 1;
  }
  return nest;
}

// Calls f(offsets, n) for the runs that elements [first, last) of the nest lie in: n elements from each view's offset.
template <std::size_t kViews, class F>
void for_each_run(const Nest<kViews>& nest, std::int64_t first, std::int64_t last, F&& f) {
  if (first >= last) return;
  const int outer = nest.rank - 1;
  Dims index{};
  std::int64_t rest = first / nest.run();
  std::int64_t from = first % nest.run();
  for (int i = outer - 1; i >= 0; --i) {
    index[i] = rest % nest.sizes[i];
    rest /= nest.sizes[i];
  }
  for (std::int64_t left = last - first; left > 0;) {
    const std::int64_t n = std::min(left, nest.run() - from);
    std::array<std::int64_t, kViews> at{};
    for (std::size_t v = 0; v < kViews; ++v) {
      at[v] = nest.start[v] + from * nest.run_stride(v);
      for (int i = 0; i < outer; ++i) at[v] += index[i] * nest.strides[v][i];
    }
    f(static_cast<const std::array<std::int64_t, kViews>&>(at), n);
    left -= n;
    from = 0;
    for (int i = outer - 1; i >= 0 && ++index[i] == nest.sizes[i]; --i) index[i] = 0;
  }
}

}  // namespace bp
