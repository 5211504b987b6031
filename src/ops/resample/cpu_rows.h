// SPDX-License-Identifier: Apache-2.0
// A resample as rows: what both directions share on the CPU. A row is the memory that follows the last resampled axis,
// columns of `pixel` elements each. The other resampled axes are levels: on each of them a row is a weighted sum of
// rows. The axes that are left alone are walked, or lie inside of the columns.
#pragma once

#include "backends/cpu/parallel.h"
#include "backends/cpu/scratch.h"
#include "core/tensor.h"
#include "ops/resample/tables.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace bp::cpu {

// An axis along which sums are taken: out r is the sum of weight[k] * in[index[k]] for k in [begin[r], begin[r + 1]),
// indices ascending.
template <class A>
struct SumAxis {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t in_stride = 0;
  std::int64_t out_stride = 0;
  const std::int64_t* begin = nullptr;  // the plan's tables
  const std::int64_t* index = nullptr;
  std::vector<A> weight{};
  bool unit = false;  // every weight is 1
  // For each r, and the end: the first index beyond all that the sums before it read. For each r: whether it equals the
  // sum before it.
  std::vector<std::int64_t> fresh{};
  std::vector<std::uint8_t> repeats{};
  // For each r of many terms: how many of its last terms are the first ones of r + 1.
  std::vector<std::int64_t> shared{};
  // For each r: the run of like sums that begins there.
  struct Run {
    std::int64_t count = 1;   // different sums
    std::int64_t shift = 0;   // from the indices of one to those of the next
    std::int64_t repeat = 1;  // how often each occurs
  };
  std::vector<Run> runs{};

  [[nodiscard]] std::int64_t terms(std::int64_t r) const { return begin[r + 1] - begin[r]; }
  [[nodiscard]] std::int64_t first(std::int64_t r) const { return index[begin[r]]; }
  [[nodiscard]] std::int64_t last(std::int64_t r) const { return index[begin[r + 1] - 1]; }
};

// How the sums along a row are made.
enum class Along {
  nothing,    // the row's axis is left alone
  pixels,     // a column is a vector or more: columns are added as rows are
  pairs,      // column r reads the columns from 2r + shift on: even and odd ones are taken apart
  lookups,    // the columns that neighbours read are neighbours: a permutation of one vector for each term
  gathers,    // they are not; forward, where terms are few
  transpose,  // as many rows as there are lanes, side by side
};

// Columns [first, last) of the output, and the columns [low, high) of the input that they read.
struct Tile {
  std::int64_t first = 0;
  std::int64_t last = 0;
  std::int64_t low = 0;
  std::int64_t high = 0;
};

// Scratch rows begin after so many zeros and end before as many: `pairs` reads them where the table ends.
inline constexpr std::int64_t kMargin = 4;
// Room for them before the first row, which keeps it aligned.
inline constexpr std::int64_t kLead = 16;

template <class A>
struct Rows {
  // Axes that are left alone, then the levels, in the order of the contract.
  struct Walk {
    int rank = 0;
    Dims sizes{};
    Dims in_strides{};  // 0 for levels, which the sums walk
    Dims out_strides{};
  } walk;
  int levels = 0;
  std::array<SumAxis<A>, kMaxRank> level{};
  std::int64_t block = 0;  // the most terms that are added in one go

  SumAxis<A> wide{};  // along the row, unless nothing is done along it
  std::int64_t pixel = 1;
  std::int64_t in_pixel_stride = 1, out_pixel_stride = 1;
  std::int64_t in_columns = 0, out_columns = 0;
  std::int64_t in_column_stride = 1, out_column_stride = 1;
  bool in_contiguous = false;   // a row of the input is one run
  bool in_follows = false;      // and those along the last level follow each other
  bool out_contiguous = false;  // a row of the output is one run
  bool out_follows = false;     // and its rows follow each other as they are walked

  Along along = Along::nothing;
  std::vector<Tile> tiles{};  // of a row that is left alone, which may be very long, they are not listed
  std::int64_t at_once = 1;   // rows of a block
  bool carries = false;       // sums that are begun stay for the next block
  bool asks_ahead = false;    // rows of the input are asked for ahead of their sums
  std::int64_t lanes = 1;
  std::int64_t element = 4;  // bytes
  bool past_cache = false;

  // pairs and pixels: nearest, twice the size on one level and along the row. Both sums are made at once.
  bool doubles = false;
  // pairs and pixels: linear, twice the size on one level or two and along the row. The same.
  bool twofold = false;
  // lookups and pixels: linear, half the size on one level and along the row. No sums, in registers.
  bool halved = false;
  bool halves_alike = false;  // along the row, both elements of a pair have the same weight
  // twofold on two levels: sums of planes in scratch, for so many rows of dx at a time, and so many elements for each.
  std::int64_t plane_rows = 0, plane_pitch = 0;
  // pairs
  std::int64_t shift = 0;
  std::int64_t pair_terms = 0;
  std::int64_t pair_pitch = 0;
  std::vector<A> pair_weight{};  // [term][column]
  // lookups, for each vector of output elements so many terms
  using Lane = std::conditional_t<sizeof(A) == 8, std::int64_t, std::int32_t>;
  std::int64_t lookup_terms = 0;
  std::vector<std::int64_t> lookup_base{};  // the element of the row that lane 0 of the table holds
  std::vector<Lane> lookup_lane{};          // [term][lane]
  std::vector<A> lookup_weight{};           // [term][lane]; 0: the lane has no such term

  // Scratch of one thread: the byte each array begins at.
  std::int64_t pitch = 0;      // from one scratch row to the next
  std::int64_t half = 0;       // from the even elements of a row to the odd ones
  std::int64_t kept_rows = 0;  // rows of the level before the last that are kept for the next sums; 0: none
  std::size_t sums = 0, across = 0, across_out = 0, result = 0, kept = 0, spare = 0;
  std::size_t scratch_bytes = 0;
  // Forward: rows that are already summed from some level on, for the next outputs to find. Those of a level depend on
  // the input's indices of the levels before it, of which so many slots are kept, and on the output's indices from
  // it on: all of them, where there is room, or the last one.
  struct Kept {
    std::size_t rows = 0, tags = 0;
    std::int64_t count = 0;
    std::int64_t outputs = 1;
  };
  std::array<Kept, kMaxRank + 1> kept_from{};
  std::array<std::int64_t, kMaxRank> slots{1, 1, 1, 1, 1, 1, 1, 1};  // powers of two
  // Forward: one level, and both along it and along the row one or two neighbours for each output.
  bool between = false;

  // The tables of `axes` must outlive this. `most` is how many terms are added in one go.
  Rows(Direction direction, const Tensor& input, const Tensor& output, std::span<const AxisTable> axes,
       std::int64_t most, std::int64_t vector_lanes, bool is_past_cache);

  [[nodiscard]] std::int64_t count() const {
    std::int64_t n = 1;
    for (int i = 0; i < walk.rank; ++i) n *= walk.sizes[i];
    return n;
  }
  // Elements of one scratch row, where the table allows it: the rows that one step reads stay in the first cache.
  static constexpr std::int64_t kRowElements = 4096;
  [[nodiscard]] std::int64_t tile_count() const {
    if (along != Along::nothing) return static_cast<std::int64_t>(tiles.size());
    return (out_columns + kRowElements - 1) / kRowElements;
  }
  [[nodiscard]] Tile tile(std::int64_t i) const {
    if (along != Along::nothing) return tiles[static_cast<std::size_t>(i)];
    const std::int64_t first = i * kRowElements, last = std::min(first + kRowElements, out_columns);
    return {first, last, first, last};
  }
  // How many consecutive rows differ only in the last level's index.
  [[nodiscard]] std::int64_t run() const { return levels == 0 ? 1 : level[static_cast<std::size_t>(levels - 1)].out; }

 private:
  void set_walk(const Tensor& input, const Tensor& output, std::span<const AxisTable> axes);
  void choose_along(Direction direction);
  [[nodiscard]] bool has_few_terms() const;
  bool try_pairs();
  [[nodiscard]] bool has_registers() const;
  [[nodiscard]] bool is_twofold() const;
  [[nodiscard]] bool is_halved() const;
  bool try_lookups(Direction direction);
  void cut_tiles(Direction direction);
  void lay_out_gradient();
  void lay_out_volumes();
  void lay_out_forward();
  [[nodiscard]] bool is_between() const;
};

// Why tables, or scratch memory, are too large for rows; empty when they are not.
std::string refuse_tables(std::span<const AxisTable> axes);
std::string refuse_scratch(std::size_t bytes);

// The most rows of a block.
inline constexpr std::int64_t kMostAtOnce = 64;

// Where a walk over the rows stands.
struct RowCursor {
  std::int64_t in = 0;
  Dims index{};
  std::int64_t out = 0;

  template <class Walk>
  void set(const Walk& walk, std::int64_t row) {
    in = out = 0;
    for (int i = walk.rank - 1; i >= 0; --i) {
      index[i] = row % walk.sizes[i];
      row /= walk.sizes[i];
      in += index[i] * walk.in_strides[i];
      out += index[i] * walk.out_strides[i];
    }
  }
  // On by `rows` that differ in the last index only.
  template <class Walk>
  void move(const Walk& walk, std::int64_t rows) {
    const int last = walk.rank - 1;
    if (last < 0) return;
    index[last] += rows - 1;
    in += (rows - 1) * walk.in_strides[last];
    out += (rows - 1) * walk.out_strides[last];
    next(walk);
  }
  template <class Walk>
  void next(const Walk& walk) {
    for (int i = walk.rank - 1; i >= 0; --i) {
      in += walk.in_strides[i];
      out += walk.out_strides[i];
      if (++index[i] < walk.sizes[i]) return;
      in -= walk.in_strides[i] * walk.sizes[i];
      out -= walk.out_strides[i] * walk.sizes[i];
      index[i] = 0;
    }
  }
};

// One part of a run.
struct RowsJob {
  DType dtype = DType::f32;
  const void* in = nullptr;
  std::int64_t in_end = 0;  // elements of the input's memory that may be read, from `in` on
  void* out = nullptr;
  std::byte* scratch = nullptr;
  std::int64_t first_row = 0, last_row = 0;
  std::int64_t first_tile = 0, last_tile = 0;
};

// What both directions are for their caller: rows of `in` made into rows of `out`, cut among threads; where rows are
// few, their tiles too.
template <class A>
class RowsKernel final : public Kernel {
 public:
  using RunPart = void (*)(const Rows<A>& rows, const RowsJob& job);

  // The rows read the tables of `plan`.
  RowsKernel(std::shared_ptr<const void> plan, const Tensor& in, const Tensor& out, const Settings& settings,
             Rows<A> rows, RunPart run_part)
      : plan_(std::move(plan)),
        team_(settings),
        dtype_(out.dtype),
        in_end_(byte_range(in).high / static_cast<std::int64_t>(size_of(in.dtype))),
        bytes_(stored_bytes({&in, &out})),
        rows_(std::move(rows)),
        run_part_(run_part) {}

  [[nodiscard]] std::size_t workspace_bytes() const override { return team_workspace(team_, rows_.scratch_bytes); }

  void run(const Bindings& bindings) const override {
    const TeamScratch scratch(bindings.workspace, rows_.scratch_bytes);
    const std::int64_t tiles = rows_.tile_count();
    const std::int64_t count = rows_.count();
    const std::int64_t blocks = (count + rows_.at_once - 1) / rows_.at_once;
    const std::int64_t groups = std::min(tiles, (team_.parts(tiles * blocks, bytes_) + blocks - 1) / blocks);
    team_.run_items(blocks * groups, bytes_, [&](std::int64_t first, std::int64_t last, int slot) {
      RowsJob job{.dtype = dtype_, .in = bindings.input<void>(0), .in_end = in_end_, .out = bindings.output<void>(0)};
      job.scratch = scratch.slot(slot);
      const auto part = [&](std::int64_t first_block, std::int64_t last_block, std::int64_t group) {
        job.first_row = first_block * rows_.at_once;
        job.last_row = std::min(last_block * rows_.at_once, count);
        job.first_tile = tiles * group / groups;
        job.last_tile = tiles * (group + 1) / groups;
        run_part_(rows_, job);
      };
      if (groups == 1) return part(first, last, 0);
      for (std::int64_t item = first; item < last; ++item) part(item / groups, item / groups + 1, item % groups);
    });
  }

 private:
  std::shared_ptr<const void> plan_;
  Team team_;
  DType dtype_;
  std::int64_t in_end_;  // elements that may be read
  std::uint64_t bytes_;
  Rows<A> rows_;
  RunPart run_part_;
};

}  // namespace bp::cpu
