// SPDX-License-Identifier: Apache-2.0
// Stored winners: from their number to a tap of their window and back.
#pragma once

#include "ops/max_pool/geometry.h"

#include <backpass/backpass.h>

#include <cstdint>
#include <limits>
#include <type_traits>

namespace bp {

enum class WinnersKind : std::int32_t {
  none = BP_WINNERS_NONE,
  compact = BP_WINNERS_COMPACT,
  flat = BP_WINNERS_FLAT,
  plane = BP_WINNERS_PLANE
};

// A window: its plane and its output position.
template <class Int>
struct BasicWindowIndex {
  std::int64_t n = 0;
  std::int64_t c = 0;
  BasicSpatial<Int> o{};
};
using WindowIndex = BasicWindowIndex<std::int64_t>;

enum class WinnerState { tap, none, wrong };
template <class Int>
struct BasicStoredWinner {
  using State = WinnerState;
  State state = State::none;
  BasicSpatial<Int> tap{};
};
using StoredWinner = BasicStoredWinner<std::int64_t>;

// All ones in every type: the largest unsigned value, -1.
template <class Index>
inline constexpr Index kNoWinner = static_cast<Index>(~Index{0});

// The greatest number a type can store beside its "no winner".
template <class Index>
inline constexpr std::uint64_t kMostIndex =
    static_cast<std::uint64_t>(std::numeric_limits<Index>::max()) - (std::is_unsigned_v<Index> ? 1 : 0);

template <class Index, class Int>
constexpr BasicStoredWinner<Int> decode(const BasicPoolGeometry<Int>& g, WinnersKind kind,
                                        const BasicWindowIndex<Int>& w, Index stored) {
  using State = WinnerState;
  if (stored == kNoWinner<Index>) return {State::none, {}};
  const auto number = static_cast<std::int64_t>(stored);
  if (number < 0) return {State::wrong, {}};  // negative, or a u64 beyond every index
  BasicStoredWinner<Int> winner{State::wrong, {}};
  if (kind == WinnersKind::compact) {
    if (number >= g.taps()) return winner;
    winner.tap = g.tap_of_number(static_cast<Int>(number));
  } else {
    const std::int64_t first = kind == WinnersKind::flat ? g.flat_index(w.n, w.c, {}) : 0;
    if (number < first || number - first >= g.plane()) return winner;
    const BasicSpatial<Int> p = g.position_of_plane_index(static_cast<Int>(number - first));
    for (int i = 0; i < 3; ++i) winner.tap[i] = g.axes[i].tap_at(w.o[i], p[i]);
  }
  if (g.exists(w.o, winner.tap)) winner.state = State::tap;
  return winner;
}

template <class Index, class Int>
constexpr Index encode(const BasicPoolGeometry<Int>& g, WinnersKind kind, const BasicWindowIndex<Int>& w,
                       const BasicSpatial<Int>& tap) {
  const BasicSpatial<Int> p = g.position(w.o, tap);
  switch (kind) {
    case WinnersKind::compact:
      return static_cast<Index>(g.tap_number(tap));
    case WinnersKind::flat:
      return static_cast<Index>(g.flat_index(w.n, w.c, p));
    default:
      return static_cast<Index>(g.plane_index(p));
  }
}

}  // namespace bp
