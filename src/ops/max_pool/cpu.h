// SPDX-License-Identifier: Apache-2.0
// Max pooling on the CPU: how a problem is cut into rows, for both directions and every instruction set.
//
// A row is what lies side by side along W: the elements of one plane (unit 1), or, where channels are innermost in
// memory, the elements of all channels (unit C), so that one vector kernel serves both layouts. Where planes are
// narrow, the rows of several planes (segments) stand in one row. Very long rows are cut into blocks of columns.
#pragma once

#include "backends/cpu/parallel.h"
#include "backends/cpu/scratch.h"
#include "ops/max_pool/max_pool.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace bp::cpu {

// A tensor of a plan, and how far beyond a run of it one may read: to its end where it has no gaps, else not at all.
// (In scratch memory there may be room before its first element, too.)
struct PoolTensor {
  Tensor view{};
  std::int64_t end = -1;
  std::int64_t room_before = 0;

  PoolTensor() = default;
  explicit PoolTensor(const Tensor& tensor);
};

// Whether rows of so many columns are whole rows that follow each other in memory, so that a block of them is one run.
bool rows_follow(const Tensor& view, std::int64_t columns, std::int64_t unit);

// The windows along W that are the candidates of one phase of columns: column q = j * S + phase, counted from the start
// of the padding, is tap `tap` of window j - shift. In ascending order of the windows.
struct PoolCandidate {
  std::int64_t lane = 0;  // of window -shift in a scratch row
  std::int64_t tap = 0;
};

// A cut of one side of a pooling (the input of a gradient, the output of a forward pass) into items of work, in the
// order (n, group of planes, block of columns, block of rows).
struct PoolCut {
  std::int64_t unit = 1;
  std::int64_t segments = 1;  // planes in a row
  std::int64_t groups = 1;    // of planes, in a sample
  std::int64_t columns = 1;   // in a block
  std::int64_t column_blocks = 1;
  std::int64_t rows = 1;  // D * H
  std::int64_t rows_in_block = 1;
  std::int64_t row_blocks = 1;
  std::int64_t batch = 0;

  [[nodiscard]] std::int64_t items() const { return batch * groups * column_blocks * row_blocks; }
};

struct PoolItem {
  std::int64_t n, group, column_block, row_block;
};
constexpr PoolItem pool_item(const PoolCut& cut, std::int64_t i) {
  const std::int64_t row_block = i % cut.row_blocks;
  i /= cut.row_blocks;
  const std::int64_t column_block = i % cut.column_blocks;
  i /= cut.column_blocks;
  return {i / cut.groups, i % cut.groups, column_block, row_block};
}

// Rows that are kept for the next windows: slot (a mod first) * second + (b mod second) holds row (a, b).
struct PoolSlots {
  std::int64_t first = 1;
  std::int64_t second = 1;
  [[nodiscard]] std::int64_t count() const { return first * second; }
};

// What both directions share.
struct PoolSetup {
  PoolGeometry g{};
  PoolCut cut{};
  std::int64_t before = 0;               // how many windows before window j can reach into the columns where j begins
  std::int64_t windows = 0;              // along W, that a scratch row holds of one segment
  std::int64_t pitch = 0;                // from one segment of a scratch row to the next, in elements
  PoolSlots x_slots{};                   // rows of x, reduced along W
  std::vector<std::int64_t> tap_lane{};  // where the taps along W stand in the phases of a row of x
  bool past_cache = false;
  std::uint64_t bytes = 0;

  // The lanes of a scratch row, room for a vector beyond its end included.
  [[nodiscard]] std::int64_t row_lanes() const;
  [[nodiscard]] std::int64_t items() const { return cut.items(); }
};

// A tap number that stays negative whatever row's number is added to it.
inline constexpr std::int64_t kNoTap = -(std::int64_t{1} << 30);

// Windows of more taps than this are left to the reference.
inline constexpr std::int64_t kMostPoolTaps = 65535;

// A window that reaches a row (or a plane) of x: which it is, the tap that the row is in it, and where its row stands
// among the rows that are kept.
struct PoolReach {
  std::int64_t window = 0;
  std::int64_t tap = 0;
  std::int64_t slot = 0;
};

// For every position of an axis the windows that reach it, in ascending order.
struct PoolReaches {
  std::vector<std::int64_t> begin{};  // one more than positions
  std::vector<PoolReach> reaches{};

  PoolReaches() = default;
  PoolReaches(const PoolAxis& axis, std::int64_t slots);
  [[nodiscard]] std::span<const PoolReach> at(std::int64_t position) const {
    const auto i = static_cast<std::size_t>(position);
    return {reaches.data() + begin[i], static_cast<std::size_t>(begin[i + 1] - begin[i])};
  }
};

// The taps of the windows: by their numbers, and along each axis those of every window that exist, [first, end).
struct PoolTaps {
  std::vector<Spatial> taps{};
  std::array<std::vector<std::int64_t>, 3> first{}, end{};
  std::int64_t partial_left = 0, partial_right = 0;  // windows at both ends that lack taps along W
  bool lacks_windows = false;                        // some window has no tap at all
  // Where taps are numbered by bytes: the existing columns of every window, and room for a vector.
  std::vector<std::uint8_t> column_low{}, column_count{};
  // Where few windows lack taps along W, for each of them, from left to right: 1 for the numbers of taps that it lacks.
  static constexpr std::int64_t kFewPartial = 4;
  std::vector<std::array<std::uint8_t, 256>> lacking{};

  PoolTaps() = default;
  explicit PoolTaps(const PoolGeometry& g);
};

// Stored winners and what it takes to read them.
struct PoolStored {
  WinnersKind kind = WinnersKind::none;
  PoolTensor tensor{};
  std::vector<std::int32_t> tap_at{};  // flat winners: by the distance from the window's first tap; empty: too many

  PoolStored() = default;
  PoolStored(const PoolGeometry& g, const Winners& winners);
};

struct PoolGradSetup : PoolSetup {
  PoolTensor x{}, dy{}, dx{};
  PoolTaps taps{};
  PoolStored stored{};
  std::vector<PoolCandidate> candidates{};  // phase after phase
  std::vector<std::int64_t> phase_begin{};  // S + 1 of them
  std::int64_t rows_at_once = 1;            // of windows that are read together
  PoolSlots window_slots{};
  PoolReaches planes{}, rows{};
  bool scatters = false;                   // each dy seeks its place, instead of each place its dy
  std::vector<std::int64_t> tap_offset{};  // by a tap's number: lanes from a window's first tap, in a block

  // Whether some windows have no tap, so that no kernel reads whether they have a winner nevertheless.
  [[nodiscard]] bool has_unread_winners() const { return stored.kind != WinnersKind::none && taps.lacks_windows; }
};

struct PoolForwardSetup : PoolSetup {
  PoolTensor x{}, y{}, winners{};
  WinnersKind kind = WinnersKind::none;
};

PoolGradSetup make_setup(const MaxPoolGradPlan& plan);
PoolForwardSetup make_setup(const MaxPoolPlan& plan);

}  // namespace bp::cpu
