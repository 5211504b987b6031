// SPDX-License-Identifier: Apache-2.0
// The winner of one window: written here once, for the reference and for kernels.
#pragma once

#include "core/dtype.h"
#include "ops/max_pool/winners.h"

namespace bp {

// Scan the existing taps in ascending order; replace when v > best, or v is NaN and best is not. `plane` is the first
// element of the window's plane of x, `strides` are those of its spatial axes.
template <class T>
constexpr StoredWinner find_winner(const PoolGeometry& g, const T* plane, const Spatial& strides, const Spatial& o) {
  StoredWinner winner;
  T best{};
  const Spatial end{g.axes[0].end_tap(o[0]), g.axes[1].end_tap(o[1]), g.axes[2].end_tap(o[2])};
  const Spatial first{g.axes[0].first_tap(o[0]), g.axes[1].first_tap(o[1]), g.axes[2].first_tap(o[2])};
  Spatial k{};
  for (k[0] = first[0]; k[0] < end[0]; ++k[0]) {
    for (k[1] = first[1]; k[1] < end[1]; ++k[1]) {
      for (k[2] = first[2]; k[2] < end[2]; ++k[2]) {
        const Spatial p = g.position(o, k);
        const T v = plane[p[0] * strides[0] + p[1] * strides[1] + p[2] * strides[2]];
        const bool none = winner.state == StoredWinner::State::none;
        if (none || widen(v) > widen(best) || (is_nan(v) && !is_nan(best))) {
          winner = {StoredWinner::State::tap, k};
          best = v;
        }
      }
    }
  }
  return winner;
}

}  // namespace bp
