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
struct WindowIndex {
  std::int64_t n = 0;
  std::int64_t c = 0;
  Spatial o{};
};

struct StoredWinner {
  enum class State { tap, none, wrong };
  State state = State::none;
  Spatial tap{};
};

// All ones in every type: the largest unsigned value, -1.
template <class Index>
inline constexpr Index kNoWinner = static_cast<Index>(~Index{0});

// The greatest number a type can store beside its "no winner".
template <class Index>
inline constexpr std::uint64_t kMostIndex =
    static_cast<std::uint64_t>(std::numeric_limits<Index>::max()) - (std::is_unsigned_v<Index> ? 1 : 0);

template <class Index>
constexpr StoredWinner decode(const PoolGeometry& g, WinnersKind kind, const WindowIndex& w, Index stored) {
  using State = StoredWinner::State;
  if (stored == kNoWinner<Index>) return {State::none, {}};
  const auto number = static_cast<std::int64_t>(stored);
  if (number < 0) return {State::wrong, {}};  // negative, or a u64 beyond every index
  StoredWinner winner{State::wrong, {}};
  if (kind == WinnersKind::compact) {
    if (number >= g.taps()) return winner;
    winner.tap = g.tap_of_number(number);
  } else {
    const std::int64_t first = kind == WinnersKind::flat ? g.flat_index(w.n, w.c, {}) : 0;
    if (number < first || number - first >= g.plane()) return winner;
    const Spatial p = g.position_of_plane_index(number - first);
    for (int i = 0; i < 3; ++i) winner.tap[i] = g.axes[i].tap_at(w.o[i], p[i]);
  }
  if (g.exists(w.o, winner.tap)) winner.state = State::tap;
  return winner;
}

template <class Index>
constexpr Index encode(const PoolGeometry& g, WinnersKind kind, const WindowIndex& w, const Spatial& tap) {
  const Spatial p = g.position(w.o, tap);
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
