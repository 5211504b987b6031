// SPDX-License-Identifier: Apache-2.0
// From the tensors and tables of a resample to rows: which axis runs along a row, how its sums are made, and the
// scratch memory that needs.
#include "backends/cpu/scratch.h"
#include "core/nest.h"
#include "ops/resample/cpu_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

namespace bp::cpu {

namespace {

// Elements of the rows of one block; where as many rows as there are lanes would need more, one is taken at a time.
constexpr std::int64_t kBlockElements = std::int64_t{1} << 20;
// Bytes of the rows that are kept between the last two levels.
constexpr std::int64_t kKeptBytes = std::int64_t{256} << 10;
// Tiles begin at multiples of this, which any vector divides.
constexpr std::int64_t kTileStep = 64;
// Of a term that no lane of a vector has.
constexpr std::int64_t kNowhere = -1;
// Room for vectors beyond the end of a row: twice as wide where pairs are taken apart.
constexpr std::int64_t kBeyond = 128;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

template <class A>
void find_patterns(SumAxis<A>& axis, std::int64_t most) {
  const auto weights = [&](std::int64_t r) { return axis.weight.data() + axis.begin[r]; };
  // Whether two sums have the same weights, and terms side by side.
  const auto alike = [&](std::int64_t r, std::int64_t s) {
    const std::int64_t n = axis.terms(r);
    return n > 0 && n == axis.terms(s) && axis.last(r) - axis.first(r) == n - 1 &&
           axis.last(s) - axis.first(s) == n - 1 && std::equal(weights(r), weights(r) + n, weights(s));
  };
  axis.fresh.assign(at(axis.out) + 1, 0);
  axis.repeats.assign(at(axis.out), 0);
  std::int64_t read = 0;
  for (std::int64_t r = 0; r < axis.out; ++r) {
    axis.fresh[at(r)] = read;
    if (axis.terms(r) > 0) read = std::max(read, axis.last(r) + 1);
    axis.repeats[at(r)] = r > 0 && alike(r, r - 1) && axis.first(r) == axis.first(r - 1) ? 1 : 0;
  }
  axis.fresh[at(axis.out)] = read;
  axis.shared.assign(at(axis.out), 0);
  for (std::int64_t r = 0; r + 1 < axis.out; ++r) {
    constexpr std::int64_t kMany = 5;
    if (std::min(axis.terms(r), axis.terms(r + 1)) < kMany || axis.repeats[at(r + 1)] != 0) continue;
    if (std::max(axis.terms(r), axis.terms(r + 1)) > most) continue;
    const std::int64_t* end = axis.index + axis.begin[r + 1];
    const std::int64_t* from = std::lower_bound(axis.index + axis.begin[r], end, axis.first(r + 1));
    // What r shares with the sum before it is already there when its own turn comes.
    const std::int64_t before = r == 0 ? 0 : axis.shared[at(r - 1)];
    if (from - (axis.index + axis.begin[r]) < before || end - from > axis.terms(r + 1)) continue;
    if (std::equal(from, end, end)) axis.shared[at(r)] = end - from;
  }
  axis.runs.assign(at(axis.out), {});
  for (std::int64_t r = axis.out - 1; r >= 0; --r) {
    if (axis.repeats[at(r)] != 0) continue;
    auto& run = axis.runs[at(r)];
    std::int64_t next = r + 1;
    while (next < axis.out && axis.repeats[at(next)] != 0) ++next;
    run.repeat = next - r;
    if (next == axis.out || !alike(r, next)) continue;
    const auto& rest = axis.runs[at(next)];
    const std::int64_t shift = axis.first(next) - axis.first(r);
    if (rest.repeat != run.repeat || (rest.count > 1 && rest.shift != shift)) continue;
    run.count = rest.count + 1;
    run.shift = shift;
  }
}

template <class A>
SumAxis<A> sum_axis(const Tensor& input, const Tensor& output, const AxisTable& table, int axis, std::int64_t most) {
  SumAxis<A> sum{.in = input.sizes[axis],
                 .out = output.sizes[axis],
                 .in_stride = input.strides[axis],
                 .out_stride = output.strides[axis],
                 .begin = table.begin.data(),
                 .index = table.index.data()};
  sum.weight.assign(table.weight.begin(), table.weight.end());
  sum.unit = std::all_of(sum.weight.begin(), sum.weight.end(), [](A w) { return w == 1; });
  find_patterns(sum, most);
  return sum;
}

// The columns that columns [first, last) of the output read.
template <class A>
Tile tile_of(const SumAxis<A>& wide, std::int64_t first, std::int64_t last) {
  Tile tile{first, last, wide.in, 0};
  for (std::int64_t r = first; r < last; ++r) {
    if (wide.terms(r) == 0) continue;
    tile.low = std::min(tile.low, wide.first(r));
    tile.high = std::max(tile.high, wide.last(r) + 1);
  }
  if (tile.high == 0) tile.low = 0;
  return tile;
}

// The most indices from the first to the last that any `count` sums in a row read.
template <class A>
std::int64_t reach(const SumAxis<A>& axis, std::int64_t count) {
  std::int64_t most = 1;
  for (std::int64_t r = 0; r < axis.out; ++r) {
    const Tile tile = tile_of(axis, r, std::min(r + count, axis.out));
    most = std::max(most, tile.high - tile.low);
  }
  return most;
}

template <class A>
std::int64_t longest_sum(const SumAxis<A>& axis) {
  std::int64_t longest = 0;
  for (std::int64_t r = 0; r < axis.out; ++r) longest = std::max(longest, axis.terms(r));
  return longest;
}

// Whether every sum is that of the next two.
template <class A>
bool is_doubled(const SumAxis<A>& axis) {
  if (!axis.unit || axis.out == 0 || axis.in != 2 * axis.out || axis.terms(0) != 2 || axis.first(0) != 0) return false;
  const auto& run = axis.runs[0];
  return run.count == axis.out && run.repeat == 1 && (run.shift == 2 || axis.out == 1);
}

// The axes of a view that `table` leaves alone.
Tensor left_alone(const Tensor& view, std::span<const AxisTable> axes) {
  Tensor rest{.dtype = view.dtype};
  for (int i = 0; i < view.rank; ++i) {
    if (!axes[at(i)].left_alone) continue;
    rest.sizes[rest.rank] = view.sizes[i];
    rest.strides[rest.rank++] = view.strides[i];
  }
  return rest;
}

}  // namespace

template <class A>
Rows<A>::Rows(Direction direction, const Tensor& input, const Tensor& output, std::span<const AxisTable> axes,
              std::int64_t most, std::int64_t vector_lanes, bool is_past_cache)
    : block(most),
      lanes(vector_lanes),
      element(static_cast<std::int64_t>(size_of(input.dtype))),
      past_cache(is_past_cache) {
  set_walk(input, output, axes);
  choose_along(direction);
  direction == Direction::gradient ? lay_out_gradient() : lay_out_forward();
}

template <class A>
void Rows<A>::set_walk(const Tensor& input, const Tensor& output, std::span<const AxisTable> axes) {
  for (int i = 0; i < output.rank; ++i) {
    if (!axes[at(i)].left_alone) level[at(levels++)] = sum_axis<A>(input, output, axes[at(i)], i, block);
  }
  Nest<2> rest = make_nest(left_alone(output, axes), left_alone(input, axes));

  // The innermost axis that is left alone, and the last level, if it lies outside of it, make the row.
  std::int64_t inner = 1;
  std::int64_t out_inner = 1, in_inner = 1;
  const auto take_inner = [&] {
    inner = rest.run();
    out_inner = rest.run_stride(0);
    in_inner = rest.run_stride(1);
    --rest.rank;
  };
  if (levels == 0) {
    take_inner();
  } else {
    const SumAxis<A>& last = level[at(levels - 1)];
    // By the tensor in which the level has a stride.
    const bool by_out = last.out > 1;
    const std::int64_t reach = std::abs(by_out ? last.out_stride : last.in_stride);
    if (rest.run() == 1 || std::abs(rest.run_stride(by_out ? 0 : 1)) <= reach) take_inner();
  }
  // Long runs are rows by themselves, whatever lies outside of them.
  constexpr std::int64_t kRowOfItsOwn = 1024, kOnlyLevel = 64;
  if (levels == 0 || inner >= kRowOfItsOwn || (levels == 1 && inner >= kOnlyLevel)) {
    in_columns = out_columns = inner;
    in_column_stride = in_inner;
    out_column_stride = out_inner;
  } else {
    wide = std::move(level[at(--levels)]);
    pixel = inner;
    in_pixel_stride = in_inner;
    out_pixel_stride = out_inner;
    in_columns = wide.in;
    out_columns = wide.out;
    in_column_stride = wide.in > 1 ? wide.in_stride : pixel;
    out_column_stride = wide.out > 1 ? wide.out_stride : pixel;
    along = Along::transpose;
  }

  for (int i = 0; i < rest.rank; ++i) {
    walk.sizes[walk.rank] = rest.sizes[i];
    walk.out_strides[walk.rank] = rest.strides[0][i];
    walk.in_strides[walk.rank++] = rest.strides[1][i];
  }
  for (int i = 0; i < levels; ++i) {
    walk.sizes[walk.rank] = level[at(i)].out;
    walk.out_strides[walk.rank++] = level[at(i)].out_stride;
  }

  const auto contiguous = [&](std::int64_t columns, std::int64_t column_stride, std::int64_t pixel_stride) {
    return (pixel == 1 || pixel_stride == 1) && (columns == 1 || column_stride == pixel);
  };
  in_contiguous = contiguous(in_columns, in_column_stride, in_pixel_stride);
  out_contiguous = contiguous(out_columns, out_column_stride, out_pixel_stride);
  out_follows = out_contiguous;
  std::int64_t reach = out_columns * pixel;
  for (int i = walk.rank - 1; i >= 0; --i) {
    if (walk.sizes[i] != 1 && walk.out_strides[i] != reach) out_follows = false;
    reach *= walk.sizes[i];
  }
}

// Column r reads the columns from 2r + shift on, `pair_terms` of them, except where the input ends: there it reads
// zeros of the margin, which add nothing.
template <class A>
bool Rows<A>::try_pairs() {
  if (pixel != 1) return false;
  std::int64_t low = wide.in, high = -2 * wide.out;
  for (std::int64_t r = 0; r < wide.out; ++r) {
    if (wide.terms(r) == 0) return false;
    low = std::min(low, wide.first(r) - 2 * r);
    high = std::max(high, wide.last(r) - 2 * r + 1);
  }
  constexpr std::int64_t kMostTerms = 4;
  static_assert(kMostTerms <= kMargin);
  if (high - low > kMostTerms) return false;
  for (std::int64_t r = 0; r < wide.out; ++r) {
    const std::int64_t from = std::max<std::int64_t>(2 * r + low, 0);
    const std::int64_t to = std::min(2 * r + high, wide.in);
    if (wide.terms(r) != to - from || wide.first(r) != from || wide.last(r) != to - 1) return false;
  }
  shift = low;
  pair_terms = high - low;
  pair_pitch = round_up(wide.out, kTileStep) + kTileStep;
  pair_weight.assign(at(pair_pitch * pair_terms), 0);
  for (std::int64_t r = 0; r < wide.out; ++r) {
    for (std::int64_t k = wide.begin[r]; k < wide.begin[r + 1]; ++k) {
      pair_weight[at((wide.index[k] - 2 * r - low) * pair_pitch + r)] = wide.weight[at(k)];
    }
  }
  return true;
}

template <class A>
bool Rows<A>::try_lookups(Direction direction) {
  const std::int64_t terms = std::max<std::int64_t>(longest_sum(wide), 1);
  constexpr std::int64_t kMostTerms = 8;  // of the gradient, for which there is another way
  if (direction == Direction::gradient && terms > kMostTerms) return false;
  const std::int64_t elements = wide.out * pixel;
  bool far = false;
  for (std::int64_t first = 0; first < elements; first += lanes) {
    // The last two vectors overlap; of less than a vector, lanes beyond the end do what the last one does.
    const std::int64_t base = elements >= lanes ? std::min(first, elements - lanes) : first;
    const auto element_at = [&](std::int64_t lane) { return std::min(base + lane, elements - 1); };
    const auto column = [&](std::int64_t lane) { return element_at(lane) / pixel; };
    const auto has = [&](std::int64_t lane, std::int64_t k) { return k < wide.terms(column(lane)); };
    const auto source = [&](std::int64_t lane, std::int64_t k) {
      return wide.index[wide.begin[column(lane)] + k] * pixel + element_at(lane) % pixel;
    };
    for (std::int64_t k = 0; k < terms; ++k) {
      std::int64_t low = wide.in * pixel, high = 0;
      for (std::int64_t lane = 0; lane < lanes; ++lane) {
        if (!has(lane, k)) continue;
        low = std::min(low, source(lane, k));
        high = std::max(high, source(lane, k));
      }
      far = far || high - low >= lanes;
      if (far && direction == Direction::gradient) return false;
      lookup_base.push_back(low <= high ? low : kNowhere);
      for (std::int64_t lane = 0; lane < lanes; ++lane) {
        lookup_lane.push_back(has(lane, k) ? static_cast<Lane>(source(lane, k) - low) : 0);
        lookup_weight.push_back(has(lane, k) ? wide.weight[at(wide.begin[column(lane)] + k)] : 0);
      }
    }
  }
  lookup_terms = terms;
  along = far ? Along::gathers : Along::lookups;
  return true;
}

// Sums of more share their rows, and ask for them by themselves.
template <class A>
bool Rows<A>::has_few_terms() const {
  constexpr std::int64_t kFew = 4;
  return levels != 1 || longest_sum(level[0]) <= kFew;
}

template <class A>
void Rows<A>::choose_along(Direction direction) {
  if (along != Along::nothing) {
    if (lanes == 1 || 2 * pixel >= lanes) {
      along = Along::pixels;
    } else if (direction == Direction::gradient && try_pairs()) {
      along = Along::pairs;
    } else if (!try_lookups(direction)) {
      lookup_base.clear(), lookup_lane.clear(), lookup_weight.clear();
    }
  }
  cut_tiles(direction);
  // A vector that lacks a term looks where its tile begins.
  for (const Tile& t : tiles) {
    if (lookup_base.empty()) break;
    const std::int64_t first = t.first * pixel / lanes, last = (t.last * pixel + lanes - 1) / lanes;
    const auto begin = lookup_base.begin() + first * lookup_terms, end = lookup_base.begin() + last * lookup_terms;
    std::replace(begin, end, kNowhere, t.low * pixel);
  }
  const bool whole = tile_count() == 1 && tile(0).low == 0 && tile(0).high == in_columns;
  if (levels == 1 && in_contiguous && is_doubled(level[0]) && is_doubled(wide)) {
    doubles = (along == Along::pairs && whole && wide.out >= lanes) || (along == Along::pixels && pixel >= lanes);
  }
  in_follows = in_contiguous && levels > 0 && whole && level[at(levels - 1)].in_stride == in_columns * pixel;
  std::int64_t longest = along == Along::nothing ? std::min(out_columns, kRowElements) : 1;
  for (const Tile& t : tiles) longest = std::max(longest, (t.high - t.low) * pixel);
  if (along == Along::transpose && longest * lanes > kBlockElements) along = Along::pixels;
  const bool few = has_few_terms();
  carries = direction == Direction::gradient && !few && in_contiguous && tile_count() == 1 && along != Along::pairs;
  // Unless it is carried on, the last sum of a block shares nothing.
  at_once = along == Along::transpose ? lanes
            : along == Along::pixels ? std::clamp<std::int64_t>(16 * kRowElements / longest, 1, few || carries ? 4 : 16)
                                     : std::clamp<std::int64_t>(kRowElements / longest, 1, 16);
  if (past_cache && levels == 1 && in_follows && few) {
    // What comes from memory must not wait for long work in between.
    constexpr std::int64_t kFreshBytes = 4096;
    asks_ahead = true;
    const std::int64_t fresh = std::max<std::int64_t>(1, longest * element * level[0].in / level[0].out);
    if (along != Along::transpose) {
      at_once = std::min(at_once, std::clamp<std::int64_t>(kFreshBytes / fresh / 4 * 4, 4, kMostAtOnce));
    }
  }
}

template <class A>
void Rows<A>::cut_tiles(Direction direction) {
  if (along == Along::nothing) return;
  const std::int64_t step = along == Along::pixels ? 1 : kTileStep;
  std::int64_t most = along == Along::transpose ? kRowElements / 2 : kRowElements;
  if (along == Along::pixels && direction == Direction::gradient)
    most = std::max({levels > 1 ? kRowElements : kRowElements / 4, 16 * pixel, 4 * reach(wide, 1) * pixel});
  // Two sums of many rows stay in the second cache while those are read, which are long then.
  if (along == Along::pixels && levels == 1 && !has_few_terms()) most = 4 * kRowElements;
  for (std::int64_t first = 0; first < out_columns;) {
    Tile t = tile_of(wide, first, std::min(first + step, out_columns));
    while (t.last < out_columns) {
      const Tile more = tile_of(wide, t.last, std::min(t.last + step, out_columns));
      const Tile both{t.first, more.last, std::min(t.low, more.low), std::max(t.high, more.high)};
      if ((both.high - both.low) * pixel > most || (both.last - both.first) * pixel > most) break;
      t = both;
    }
    // Vectors may overlap where no tile is less than one.
    if (out_columns - t.last < kTileStep && along != Along::pixels) t = tile_of(wide, t.first, out_columns);
    tiles.push_back(t);
    first = t.last;
  }
  // A table that jumps about would have every tile read nearly all of the row.
  std::int64_t read = 0;
  for (const Tile& t : tiles) read += t.high - t.low;
  if (read > 2 * in_columns + kTileStep && in_columns * pixel * lanes <= kBlockElements &&
      out_columns * pixel * lanes <= kBlockElements) {
    tiles = {tile_of(wide, 0, out_columns)};
  }
}

// Whether some sums can be made in registers alone.
template <class A>
bool Rows<A>::has_registers() const {
  return std::is_same_v<A, float> && lanes > 1 && in_contiguous && out_contiguous;
}

template <class A>
bool Rows<A>::is_twofold() const {
  if (!has_registers() || levels < 1 || levels > 2) return false;
  const auto doubles_linearly = [](const SumAxis<A>& axis) {
    if (axis.in != 2 * axis.out) return false;
    for (std::int64_t r = 0; r < axis.out; ++r) {
      const std::int64_t first = std::max<std::int64_t>(2 * r - 1, 0), end = std::min(2 * r + 3, axis.in);
      if (axis.terms(r) != end - first || axis.first(r) != first || axis.last(r) != end - 1) return false;
    }
    return true;
  };
  if (!std::all_of(level.begin(), level.begin() + levels, doubles_linearly) || !doubles_linearly(wide)) return false;
  // Products with half types are exact in f32 where the weights are short.
  const auto is_short = [](A weight) {
    const A scaled = weight * 4096;
    return std::abs(scaled) <= 4096 && scaled == std::floor(scaled);
  };
  if (element == 2 && !std::all_of(level[0].weight.begin(), level[0].weight.end(), is_short)) return false;
  // Sums of planes are made of rows that follow each other.
  const bool is_volume = levels == 2;
  if (is_volume && level[1].in_stride != in_columns * pixel) return false;
  // Columns that are vectors have the same weights but for the first and the last one.
  if (along == Along::pixels) return pixel >= lanes && wide.out > 2 && wide.runs[1].count == wide.out - 2;
  return along == Along::pairs && (is_volume || !past_cache) && tile_count() == 1 && wide.out >= lanes;
}

template <class A>
bool Rows<A>::is_halved() const {
  const auto halves = [](const SumAxis<A>& axis) {
    if (axis.out != 2 * axis.in) return false;
    for (std::int64_t r = 0; r < axis.out; ++r) {
      if (axis.terms(r) != 1 || axis.first(r) != r / 2) return false;
    }
    return true;
  };
  if (!has_registers() || levels != 1 || !halves(level[0]) || !halves(wide)) return false;
  return along == Along::pixels ? pixel >= lanes : pixel == 1 && tile_count() == 1 && wide.in >= lanes;
}

template <class A>
void Rows<A>::lay_out_gradient() {
  halved = is_halved();
  halves_alike = halved;
  for (std::int64_t r = 1; halves_alike && r < wide.out; r += 2) halves_alike = wide.repeats[at(r)] != 0;
  twofold = is_twofold();
  if (twofold && levels == 2) return lay_out_volumes();
  std::int64_t longest = along == Along::nothing ? std::min(out_columns, kRowElements) : 0;
  std::int64_t longest_out = longest;
  for (const Tile& t : tiles) {
    longest = std::max(longest, (t.high - t.low) * pixel);
    longest_out = std::max(longest_out, (t.last - t.first) * pixel);
  }
  // Rows that begin a page apart would meet in the same places of the first cache.
  half = round_up(longest / 2 + kBeyond, 16) + 16;
  pitch = round_up(longest + kBeyond, 16);
  if (along == Along::pairs) pitch = 2 * half;
  if (pitch % 64 == 0) pitch += 16;

  // What the last level of several adds is kept, for as many rows at once as that has room for.
  if (levels >= 2) {
    const auto row_bytes = std::max<std::int64_t>(longest, 1) * static_cast<std::int64_t>(sizeof(A));
    for (;; at_once /= 2) {
      kept_rows = reach(level[at(levels - 1)], at_once);
      if (kept_rows * row_bytes <= kKeptBytes || at_once == 1) break;
    }
    if (kept_rows * row_bytes > kKeptBytes) kept_rows = 0;
  }

  ScratchLayout layout;
  const auto reserve = [&](std::int64_t elements) { return layout.reserve(elements, sizeof(A)); };
  sums = reserve(kLead + pitch * (at_once + (carries ? 1 : 0)));
  if (along == Along::transpose) {
    across = reserve((longest + kBeyond) * lanes);
    across_out = reserve((longest_out + kBeyond) * lanes);
  }
  result = reserve(longest_out * at_once + kBeyond);
  kept = reserve(kept_rows * longest + kBeyond);
  // Three rows for the sums of each level, and three for those of all.
  spare = reserve(pitch * 3 * (levels + 1));
  scratch_bytes = layout.bytes();
}

// Of twofold on two levels.
template <class A>
void Rows<A>::lay_out_volumes() {
  // Of one sum: with two of them and what is read the first cache has enough; columns of many elements are so large
  // that rows at the borders, which are summed twice, would cost more, and go to the second.
  const std::int64_t sum_bytes = along == Along::pairs ? std::int64_t{9} << 10 : std::int64_t{288} << 10;
  constexpr std::int64_t kPartRows = 8;
  const std::int64_t row = in_columns * pixel;
  const std::int64_t most = sum_bytes / (row * static_cast<std::int64_t>(sizeof(A)));  // rows of dy
  plane_rows = std::clamp<std::int64_t>((most - 2) / 2 / 2 * 2, 2, level[1].out);
  plane_pitch = round_up((2 * plane_rows + 2) * row + kBeyond, 16);
  at_once = kPartRows;
  tiles = {tile_of(wide, 0, out_columns)};

  ScratchLayout layout;
  result = layout.reserve(2 * plane_pitch, sizeof(A));
  sums = layout.reserve(4 * (pixel + lanes), sizeof(A));
  spare = layout.reserve(6 * (in_columns + 2 * kBeyond), sizeof(A));
  scratch_bytes = layout.bytes();
}

template <class A>
bool Rows<A>::is_between() const {
  const auto of_neighbours = [](const SumAxis<A>& axis) {
    for (std::int64_t r = 0; r < axis.out; ++r) {
      if (const std::int64_t terms = axis.terms(r); terms < 1 || terms > 2 || axis.last(r) - axis.first(r) != terms - 1)
        return false;
    }
    return true;
  };
  if (levels != 1 || !in_contiguous || !out_contiguous || !of_neighbours(level[0])) return false;
  if (along == Along::pixels) return pixel >= lanes && of_neighbours(wide);
  return along == Along::lookups && lookup_terms <= 2 && pixel == 1 && std::min(in_columns, out_columns) >= lanes;
}

template <class A>
void Rows<A>::lay_out_forward() {
  between = is_between();
  std::int64_t longest = along == Along::nothing ? std::min(out_columns, kRowElements) : 1;
  std::int64_t longest_out = longest;
  for (const Tile& t : tiles) {
    longest = std::max(longest, (t.high - t.low) * pixel);
    longest_out = std::max(longest_out, (t.last - t.first) * pixel);
  }
  pitch = round_up(longest_out + kBeyond, 16);
  if (pitch % 64 == 0) pitch += 16;
  at_once = std::clamp<std::int64_t>(kRowElements / longest_out, 1, 16);

  ScratchLayout layout;
  const auto reserve = [&](std::int64_t elements) { return layout.reserve(elements, sizeof(A)); };
  spare = reserve(longest + kBeyond);
  result = reserve(longest_out * at_once + kBeyond);
  constexpr std::int64_t kMostSlots = 8, kMostRows = 64;
  std::int64_t before = 1;
  for (int i = 0; i < levels; ++i) {
    while (slots[at(i)] < std::min(reach(level[at(i)], 1), kMostSlots)) slots[at(i)] *= 2;
    if (before * slots[at(i)] > kMostRows) slots[at(i)] = 1;
    before *= slots[at(i)];
    const std::int64_t most = kKeptBytes / (before * pitch * static_cast<std::int64_t>(sizeof(A)));
    Kept& rows = kept_from[at(i) + 1];
    for (int k = i + 1; k < levels && rows.outputs <= most; ++k) rows.outputs *= level[at(k)].out;
    if (rows.outputs > most) rows.outputs = 1;
    rows.count = before * rows.outputs;
    rows.rows = reserve(rows.count * pitch);
    rows.tags = layout.reserve(rows.count, 2 * sizeof(std::int64_t));
  }
  scratch_bytes = layout.bytes();
}

std::string refuse_tables(std::span<const AxisTable> axes) {
  constexpr std::int64_t kLongest = 1 << 20, kMostTaps = 1 << 24;
  for (const AxisTable& axis : axes) {
    if (axis.left_alone) continue;
    if (const std::int64_t longest = std::max(axis.inputs, axis.outputs); longest > kLongest)
      return fmt::format("a resampled axis has {} elements, expected at most {}", longest, kLongest);
    if (axis.index.size() > at(kMostTaps))
      return fmt::format("a table has {} taps, expected at most {}", axis.index.size(), kMostTaps);
  }
  return {};
}

std::string refuse_scratch(std::size_t bytes) {
  constexpr std::size_t kMost = std::size_t{64} << 20;
  if (bytes <= kMost) return {};
  return fmt::format("a thread would need {} bytes of scratch memory, expected at most {}", bytes, kMost);
}

template struct Rows<float>;
template struct Rows<double>;

}  // namespace bp::cpu
