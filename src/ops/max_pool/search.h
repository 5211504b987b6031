// SPDX-License-Identifier: Apache-2.0
// The winner of one window: written here once, for the reference and for kernels.
#pragma once

#include "core/dtype.h"
#include "ops/max_pool/winners.h"

namespace bp {

// Scan the existing taps in ascending order; replace when v > best, or v is NaN and best is not. `plane` is the first
// element of the window's plane of x, `strides` are those of its spatial axes.
template <class T, class Int>
constexpr BasicStoredWinner<Int> find_winner(const BasicPoolGeometry<Int>& g, const T* plane,
                                             const BasicSpatial<Int>& strides, const BasicSpatial<Int>& o) {
  BasicStoredWinner<Int> winner;
  T best{};
  const BasicSpatial<Int> end{g.axes[0].end_tap(o[0]), g.axes[1].end_tap(o[1]), g.axes[2].end_tap(o[2])};
  const BasicSpatial<Int> first{g.axes[0].first_tap(o[0]), g.axes[1].first_tap(o[1]), g.axes[2].first_tap(o[2])};
  BasicSpatial<Int> k{};
  for (k[0] = first[0]; k[0] < end[0]; ++k[0]) {
    for (k[1] = first[1]; k[1] < end[1]; ++k[1]) {
      for (k[2] = first[2]; k[2] < end[2]; ++k[2]) {
        const BasicSpatial<Int> p = g.position(o, k);
        const T v = plane[p[0] * strides[0] + p[1] * strides[1] + p[2] * strides[2]];
        const bool none = winner.state == WinnerState::none;
        if (none || widen(v) > widen(best) || (is_nan(v) && !is_nan(best))) {
          winner = {WinnerState::tap, k};
          best = v;
        }
      }
    }
  }
  return winner;
}

}  // namespace bp
