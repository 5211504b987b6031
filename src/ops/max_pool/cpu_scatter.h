// SPDX-License-Identifier: Apache-2.0
// How poolings by wide windows are cut, where each dy is added to its winner's sum.
#pragma once

#include "ops/max_pool/cpu.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bp::cpu {

// For each number of a tap what its place along some axes adds; tables for windows that lack different taps.
struct PoolPlaces {
  static constexpr std::size_t kNumbers = 256;
  std::vector<std::int32_t> tables{};
  std::vector<std::size_t> table_of{};  // by the window's number along these axes: where its table begins

  [[nodiscard]] const std::int32_t* at(std::int64_t window) const {
    return tables.data() + table_of[static_cast<std::size_t>(window)];
  }
};

// An item is some planes, or some channels of all pixels, of an image.
struct PoolScatter {
  static constexpr std::int64_t kPlanes = 8, kChannels = 64;  // that take turns, at most

  PoolGeometry g{};
  PoolTensor winners{}, dy{}, dx{};
  bool planar = true;
  std::int64_t together = kPlanes;
  Spatial padded{};  // cells along each axis
  // Where a winner's sum is, in sums from that of the window's first tap on: what its row adds, by the rows that a
  // window has, and its column. A tap that does not exist takes away as many sums as there are in all; no winner adds
  // them.
  PoolPlaces rows{}, columns{};
  std::uint64_t bytes = 0;
  bool past_cache = false;

  [[nodiscard]] std::int64_t cells() const { return padded[0] * padded[1] * padded[2]; }
  [[nodiscard]] std::int64_t cell(std::int64_t d, std::int64_t h, std::int64_t w) const {
    return (d * padded[1] + h) * padded[2] + w;
  }
  [[nodiscard]] std::int64_t sums() const { return cells() * together; }     // of an item
  [[nodiscard]] std::int64_t step() const { return planar ? 1 : together; }  // from a cell to the next
  [[nodiscard]] std::int64_t groups() const { return ceil_div(g.channels, together); }
  [[nodiscard]] std::int64_t items() const { return g.batch * groups(); }
  [[nodiscard]] static bool has_unread_winners() { return false; }
};

}  // namespace bp::cpu
