// SPDX-License-Identifier: Apache-2.0
// Where the elements of several views of one shape lie, for a thread that knows only the number of its element.
#pragma once

#include "backends/cuda/divisor.h"
#include "core/nest.h"

#include <array>
#include <cstdint>

namespace bp::cuda {

// A nest as kernels take it: by value, its innermost axis first.
template <std::size_t kViews>
struct Strided {
  std::int64_t count = 0;
  int rank = 0;
  Divisor<std::uint64_t> sizes[kMaxRank];
  std::int64_t strides[kViews][kMaxRank] = {};

  explicit Strided(const Nest<kViews>& nest) : count(nest.count()), rank(nest.rank) {
    if (count == 0) return;  // nothing is launched, and nothing is divided by 0
    for (int i = 0; i < rank; ++i) {
      const int axis = rank - 1 - i;
      sizes[i] = Divisor<std::uint64_t>(nest.sizes[axis]);
      for (std::size_t v = 0; v < kViews; ++v) strides[v][i] = nest.strides[v][axis];
    }
  }

  [[nodiscard]] constexpr std::array<std::int64_t, kViews> offsets(std::int64_t item) const {
    std::array<std::int64_t, kViews> at{};
    auto rest = static_cast<std::uint64_t>(item);
    for (int i = 0; i < rank; ++i) {
      const auto index = static_cast<std::int64_t>(sizes[i].split(rest));
      for (std::size_t v = 0; v < kViews; ++v) at[v] += index * strides[v][i];
    }
    return at;
  }
};

}  // namespace bp::cuda
