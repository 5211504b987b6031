// SPDX-License-Identifier: Apache-2.0
// The search for winners where the window along W is known to the compiler. Compiled once for each instruction set.
//
// f32 is compared as it is; f16 and bf16 as keys, integers of 16 bits in the order of the values. A strictly greater
// one takes over, so the first of equals stays. A NaN is rare: where there is one, a tile is searched once more, by the
// rule for NaN as well: the first one takes over and stays.
//
// Two or four rows of windows are sought together, in registers: along W once for every row of x that they read, then
// over the rows of each window. x is read where it lies, beyond the ends of its rows too; what stands there becomes
// -infinity. (With stride 2, even and odd columns are taken apart in registers.)

#if defined(BP_OPS_MAX_POOL_CPU_TILE_SEARCH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BP_OPS_MAX_POOL_CPU_TILE_SEARCH_INL_H
#undef BP_OPS_MAX_POOL_CPU_TILE_SEARCH_INL_H
#else
#define BP_OPS_MAX_POOL_CPU_TILE_SEARCH_INL_H
#endif

#include "backends/cpu/simd-inl.h"
#include "ops/max_pool/cpu_tiles.h"

#include <bit>

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

// Channels innermost come in multiples of 16.
using TileLanes = hn::CappedTag<float, 16>;

// Calls f.operator()<T, kWindow, kStride>() for a shape that is cut into tiles.
template <class F>
HWY_INLINE void visit_tiles(const PoolTileShape& shape, DType dtype, F&& f) {
  const auto with_type = [&]<class T>() {
    if (shape.window == 5) return f.template operator()<T, 5, 1>();
    if (shape.window == 2) return f.template operator()<T, 2, 2>();
    if (shape.stride == 2) return f.template operator()<T, 3, 2>();
    return f.template operator()<T, 3, 1>();
  };
  if (dtype == DType::f32) return with_type.template operator()<float>();
  if (dtype == DType::f16) return with_type.template operator()<f16>();
  return with_type.template operator()<bf16>();
}

// kValues: the values of the winners are wanted, too.
template <class T, int kWindow, int kStride, bool kValues>
class TileSearch {
  static constexpr bool kIsKeyed = !std::is_same_v<T, float>;
  static constexpr bool kKeepsValues = kIsKeyed && kValues;  // which are not what is compared
  using Lane = std::conditional_t<kIsKeyed, std::int16_t, float>;
  using D = hn::CappedTag<Lane, kIsKeyed ? 32 : 16>;
  using V = hn::Vec<D>;
  using DI = hn::RebindToSigned<D>;
  using VI = hn::Vec<DI>;
  using Tap = hn::TFromD<DI>;
  using M = hn::Mask<D>;
  static constexpr Lane kLowest = std::bit_cast<Lane>(lowest<T>());      // -infinity
  static constexpr std::int64_t kAhead = std::int64_t{4096} * kStride;   // bytes that x is asked for ahead...
  static constexpr std::int64_t kPixelsAhead = 2048;                     // ...of each row, where channels are innermost
  static constexpr int kTogether = tile_height(kStride);                 // rows of windows that are one tile
  static constexpr int kTileRows = kWindow + (kTogether - 1) * kStride;  // rows of x that it reads

 public:
  // The winners of a row of windows, as numbers of taps, and, if wanted, their values.
  struct Found {
    std::uint8_t* taps;
    T* values;
  };

  struct Layout {
    std::int64_t left = 0, right = 0;  // elements that are read before a row of x, and from its first one on
    std::size_t first = 0, rows = 0, sources = 0, spare_taps = 0, spare_values = 0;

    Layout() = default;
    Layout(const PoolTiles& t, ScratchLayout& scratch) {
      const PoolAxis &d = t.g.axes[0], &w = t.g.axes[2];
      const bool planar = t.unit == 1;
      left = planar ? w.start_padding : 0;
      right = std::max(w.input, kStride * w.output + w.extent()) * t.unit + kSlack;
      first = scratch.reserve(planar ? w.output + kSlack : 0, sizeof(Tap));
      rows = scratch.reserve(planar ? d.window * kTileRows * (left + right) : 0, sizeof(T));
      sources = scratch.reserve(d.window, sizeof(Source));
      spare_taps = scratch.reserve(w.output * t.unit + kSlack, 1);
      spare_values = scratch.reserve(kValues ? w.output * t.unit + kSlack : 0, sizeof(T));
    }
  };

  TileSearch(const PoolTiles& tiles, const PoolTensor& x, const T* data, const Layout& layout, std::byte* scratch)
      : t_(tiles),
        x_(x),
        data_(data),
        layout_(layout),
        first_(reinterpret_cast<Tap*>(scratch + layout.first)),
        rows_(reinterpret_cast<T*>(scratch + layout.rows)),
        sources_(reinterpret_cast<Source*>(scratch + layout.sources)),
        spare_{reinterpret_cast<std::uint8_t*>(scratch + layout.spare_taps),
               reinterpret_cast<T*>(scratch + layout.spare_values)} {
    if (layout.right == 0 || t_.unit > 1) return;  // nothing is sought, or there are no edges within a vector
    for (std::int64_t o = 0; o < axis_w().output; ++o) first_[o] = static_cast<Tap>(axis_w().first_tap(o));
  }

  // How many rows of windows are sought at once.
  [[nodiscard]] std::int64_t rows_at_once() const { return kTogether * axis_h().dilation; }

  // Another plane of windows.
  void start(std::int64_t n, std::int64_t c, std::int64_t od) {
    n_ = n;
    c_ = c;
    od_ = od;
    const std::int64_t step = x_.view.strides[3];
    const std::int64_t row = std::max<std::int64_t>(std::abs(step), 1) * static_cast<std::int64_t>(sizeof(T));
    // The planes of a window are asked for together.
    const std::int64_t rows = ceil_div(kAhead, row * t_.g.axes[0].window);
    ahead_ = std::max<std::int64_t>(rows, std::int64_t{kTogether} * kStride) * step;
  }

  // Seeks the winners of `count` rows of windows from row o on, at most as many as are sought at once, and puts those
  // of row o + r where found(r) says. Rows come in ascending order.
  template <class F>
  void find(std::int64_t o, std::int64_t count, const F& found) {
    const PoolAxis& h = axis_h();
    for (std::int64_t j = 0; j < std::min(count, h.dilation); ++j) {
      Found rows[kTogether];
      for (int k = 0; k < kTogether; ++k) {
        const std::int64_t row = j + k * h.dilation;
        rows[k] = row < count ? found(row) : spare_;
      }
      find_tile(o + j, rows);
    }
  }

 private:
  // Of a vector of windows: channels of one window, or its 16, which are less than a vector; windows side by side,
  // whose columns exist but for the first few, or not.
  enum class Place { pixel, narrow_pixel, inside, edge };
  static constexpr bool is_pixel(Place place) { return place == Place::pixel || place == Place::narrow_pixel; }
  static constexpr std::size_t kNarrowPixel = 16;
  static constexpr int kBefore = (kWindow - 1) / 2;  // those few: what lies before the window's middle

  // The rows of one plane of x that a tile reads, and the number that the first tap of each has in the tile's first row
  // of windows.
  struct Source {
    const T* x[kTileRows];
    Tap tap[kTileRows];
  };
  struct Columns {
    std::int64_t offset[kWindow];
    Tap tap[kWindow];
  };

  [[nodiscard]] const PoolAxis& axis_h() const { return t_.g.axes[1]; }
  [[nodiscard]] const PoolAxis& axis_w() const { return t_.g.axes[2]; }

  // The row of x that begins at an offset. Where it must not be read beyond its ends, a copy, in slot `slot`.
  HWY_INLINE const T* row_of_x(std::int64_t at, std::int64_t slot) const {
    if (t_.unit > 1 || (at >= layout_.left && at + layout_.right <= x_.end)) return data_ + at;
    T* copy = rows_ + slot * (layout_.left + layout_.right) + layout_.left;
    std::memcpy(copy, data_ + at, static_cast<std::size_t>(axis_w().input) * sizeof(T));
    return copy;
  }

  // ---- Columns of a row of x

  // lanes(d) elements, as they are.
  static HWY_INLINE V load_lanes(D d, const T* from) { return hn::LoadU(d, reinterpret_cast<const Lane*>(from)); }

  // Even and odd elements.
  static HWY_INLINE void load_pairs(D d, const T* from, V& even, V& odd) {
#if HWY_TARGET == HWY_SCALAR
    even = load_lanes(d, from);
    odd = load_lanes(d, from + 1);
#else
    const V lower = load_lanes(d, from), upper = load_lanes(d, from + lanes(d));
    even = hn::ConcatEven(d, upper, lower);
    odd = hn::ConcatOdd(d, upper, lower);
#endif
  }

  // The even elements from the second one on, of those from `from` on, whose even ones are known.
  static HWY_INLINE V next_pairs(D d, const T* from, [[maybe_unused]] V even) {
#if HWY_TARGET == HWY_AVX3
    std::uint32_t next;
    std::memcpy(&next, from + 2 * lanes(d), sizeof(next));
    return first_after(d, even, hn::BitCast(d, hn::Set(hn::Repartition<std::uint32_t, D>(), next)));
#else
    V next, unused;
    load_pairs(d, from + 2, next, unused);
    return next;
#endif
  }

  // -infinity where tap k of the windows from column `at` of x on is beyond the ends of a row.
  template <Place kPlace>
  HWY_INLINE V without_padding(V v, std::int64_t at, std::int64_t k) const {
    if (is_pixel(kPlace) || (kPlace == Place::inside && k >= kBefore)) return v;
    const D d;
    const DI di;
    // Counted from the first lane's column, so that 16 bits are enough.
    const auto border = [&](std::int64_t column) HWY_ATTR {
      const std::int64_t lane = column - at - k * axis_w().dilation;
      return hn::Set(di, static_cast<Tap>(std::clamp<std::int64_t>(lane, -1, kStride * lanes(d))));
    };
    const VI column = hn::Mul(hn::Iota(di, 0), hn::Set(di, kStride));
    auto exists = hn::Gt(column, border(-1));
    if constexpr (kPlace == Place::edge) exists = hn::And(exists, hn::Lt(column, border(axis_w().input)));
    return hn::IfThenElse(hn::RebindMask(d, exists), v, hn::Set(d, kLowest));
  }

  // Tap k along W of windows from column `at` of x on.
  template <Place kPlace>
  HWY_INLINE V column(const T* x, std::int64_t at, std::int64_t k) const {
    if constexpr (kPlace == Place::narrow_pixel) {
      const D d;
      return hn::MaskedLoad(hn::FirstN(d, kNarrowPixel), d, reinterpret_cast<const Lane*>(x));
    } else {
      return without_padding<kPlace>(load_lanes(D(), x), at, k);
    }
  }

  // ---- One more candidate

  // What a value is compared by. The key of -infinity is the lowest integer, +0 and -0 have the same, and that of a NaN
  // of either sign is above infinity's, since those below -infinity's wrap around.
  static constexpr Lane kInfinityKey = kIsKeyed ? static_cast<Lane>(32768 + 2 * kLowest) : Lane{0};
  template <bool kNan>
  static HWY_INLINE V key_of(V value) {
    if constexpr (kIsKeyed) {
      const D d;
      const V negative = hn::Sub(hn::Set(d, static_cast<Lane>(32768 + kLowest)), value);
      const V key = hn::IfThenElse(hn::Lt(value, hn::Zero(d)), negative, hn::Add(value, hn::Set(d, kLowest)));
      if constexpr (!kNan) return key;
      return hn::IfThenElse(hn::Gt(key, hn::Set(d, kInfinityKey)), hn::Set(d, hwy::LimitsMax<Lane>()), key);
    } else {
      return value;
    }
  }

  template <bool kNan>
  static HWY_INLINE M takes_over(V key, V best) {
    if constexpr (kNan && !kIsKeyed) {
      return hn::Or(hn::Gt(key, best), hn::AndNot(hn::IsNaN(best), hn::IsNaN(key)));
    } else {
      return hn::Gt(key, best);
    }
  }

  template <bool kNan>
  static HWY_INLINE void take(V key, V value_there, VI tap_there, V& best, V& value, VI& tap) {
    const M over = takes_over<kNan>(key, best);
    // Of keys, the greater one does not wait for the comparison.
    best = kIsKeyed ? hn::Max(key, best) : hn::IfThenElse(over, key, best);
    if constexpr (kKeepsValues) value = hn::IfThenElse(over, value_there, value);
    tap = hn::IfThenElse(hn::RebindMask(DI(), over), tap_there, tap);
  }

  template <Place kPlace, class DTo, class VTo>
  static HWY_INLINE void put_lanes(DTo d, VTo v, hn::TFromD<DTo>* to) {
    if constexpr (kPlace == Place::narrow_pixel) {
      hn::BlendedStore(v, hn::FirstN(d, kNarrowPixel), d, to);
    } else {
      hn::StoreU(v, d, to);
    }
  }
  // A NaN wins, if by its key, and is seen here.
  template <Place kPlace>
  static HWY_INLINE void put(V best, V value, VI tap, const Found& found, std::int64_t i, M& nan) {
    const D d;
    const DI di;
    if constexpr (kIsKeyed) nan = hn::Or(nan, hn::Gt(best, hn::Set(d, kInfinityKey)));
    put_lanes<kPlace>(hn::Rebind<std::uint8_t, DI>(), narrowed<std::uint8_t>(di, tap), found.taps + i);
    if constexpr (kValues) put_lanes<kPlace>(d, kIsKeyed ? value : best, reinterpret_cast<Lane*>(found.values + i));
  }

  // ---- A tile
  //
  // Each row of x is searched along W once, and what is found offered to all rows of windows that it is in. Where a row
  // or column of a window is padding, its nearest one that exists stands in once more, with its own number: an
  // equal never takes over, so that changes nothing.

  void find_tile(std::int64_t o, const Found (&rows)[kTogether]) {
    const PoolAxis &d = t_.g.axes[0], &h = axis_h();
    const std::int64_t start = h.position(o, 0);
    const bool inside = start >= 0 && start + (kTileRows - 1) * h.dilation < h.input;  // most are: no division for them
    const std::int64_t low = inside || start >= 0 ? 0 : ceil_div(-start, h.dilation);
    const std::int64_t high = inside ? kTileRows - 1 : (h.input - 1 - start) / h.dilation;
    const Dims& s = x_.view.strides;
    const std::int64_t volume = n_ * s[0] + c_ * s[1], step = h.dilation * s[3];
    int count = 0;
    for (std::int64_t kd = d.first_tap(od_); kd < d.end_tap(od_); ++kd, ++count) {
      Source& source = sources_[count];
      const std::int64_t first = volume + d.position(od_, kd) * s[2] + start * s[3];
      for (int r = 0; r < kTileRows; ++r) {
        const std::int64_t row = std::clamp<std::int64_t>(r, low, high);
        source.tap[r] = static_cast<Tap>((kd * kWindow + row) * kWindow);
        source.x[r] = row_of_x(first + row * step, count * kTileRows + r);
      }
    }
    const bool planar = t_.unit == 1;
    const bool has_nan = planar ? tile_of_lanes<false>(count, rows) : tile_of_pixels<false>(count, rows);
    if (has_nan) planar ? tile_of_lanes<true>(count, rows) : tile_of_pixels<true>(count, rows);
  }

  // Returns whether there is a NaN, which without kNan has been taken for a number.
  template <bool kNan>
  HWY_NOINLINE bool tile_of_lanes(int count, const Found (&rows)[kTogether]) const {
    const D d;
    const Source& source = sources_[0];  // (a copy would be one wide load of many stores, and wait for them all)
    const PoolAxis& w = axis_w();
    Columns columns;
    for (int k = 0; k < kWindow; ++k) {
      columns.offset[k] = k * w.dilation;
      columns.tap[k] = static_cast<Tap>(k);
    }
    M nan = hn::Gt(hn::Zero(d), hn::Zero(d));
    // Padding is -infinity, which takes over from nothing: so a window may begin with its first tap's value whether it
    // exists or not, and with the number of the first one that does.
    const std::int64_t n = w.output, last = n - lanes(d);
    if (last < 0) {
      tile_of_few<kNan>(source, count, columns, rows, nan);
      return !hn::AllFalse(d, nan);
    }
    const auto at_edge = [&](std::int64_t i) HWY_ATTR { edge_vector<kNan>(source, count, columns, rows, i, nan); };
    // Inside, every column of a window is the first column of a later one, which looks for NaN; keys need no look.
    const std::int64_t later = kIsKeyed ? 0 : kStride == 1 ? (kWindow - 1) * w.dilation : 1;
    const auto is_inside = [&](std::int64_t o) {
      return w.position(o, kBefore) >= 0 && o + lanes(d) - 1 + later < n &&
             w.position(o + lanes(d) - 1, kWindow - 1) < w.input;
    };
    // The last vector overlaps the one before it, so that nothing of another row is overwritten. The rare search with
    // NaN has no code of its own for what lies inside.
    for (std::int64_t i = 0; i - lanes(d) < last; i += lanes(d)) {
      const std::int64_t o = std::min(i, last);
      if constexpr (!kNan) {
        if (is_inside(o)) {
          tile_vector<false, Place::inside>(source, count, columns, hn::LoadU(DI(), first_ + o), w.position(o, 0), rows,
                                            o, nan);
          continue;
        }
      }
      at_edge(o);
    }
    return !hn::AllFalse(d, nan);
  }

  // Windows from window i on, at an end of their row, or a whole one. (A function: there are several calls, and much to
  // compile.)
  template <bool kNan>
  HWY_NOINLINE void edge_vector(const Source& source, int count, const Columns& columns, const Found (&rows)[kTogether],
                                std::int64_t i, M& nan) const {
    tile_vector<kNan, Place::edge>(source, count, columns, hn::LoadU(DI(), first_ + i), axis_w().position(i, 0), rows,
                                   i, nan);
  }

  // Of less than a vector.
  template <bool kNan>
  void tile_of_few(const Source& source, int count, const Columns& columns, const Found (&rows)[kTogether],
                   M& nan) const {
    constexpr std::size_t kLanes = hn::MaxLanes(D());
    std::uint8_t taps[kTogether * kLanes];
    T values[kTogether * kLanes];
    Found found[kTogether];
    for (std::size_t k = 0; k < kTogether; ++k) found[k] = {taps + k * kLanes, values + k * kLanes};
    edge_vector<kNan>(source, count, columns, found, 0, nan);
    const auto n = static_cast<std::size_t>(axis_w().output);
    for (int k = 0; k < kTogether; ++k) {
      std::memcpy(rows[k].taps, found[k].taps, n);
      if constexpr (kValues) std::memcpy(rows[k].values, found[k].values, n * sizeof(T));
    }
  }

  // Where channels are innermost: the windows' columns one after the other.
  template <bool kNan>
  [[nodiscard]] bool tile_of_pixels(int count, const Found (&rows)[kTogether]) const {
    if constexpr (hn::MaxLanes(D()) > kNarrowPixel) {
      if (t_.pixel < lanes(D())) return tile_of_pixels<kNan, Place::narrow_pixel>(count, rows);
    }
    return tile_of_pixels<kNan, Place::pixel>(count, rows);
  }
  template <bool kNan, Place kPlace>
  HWY_NOINLINE bool tile_of_pixels(int count, const Found (&rows)[kTogether]) const {
    const D d;
    const Source& source = sources_[0];
    const PoolAxis& w = axis_w();
    const std::int64_t unit = t_.unit, pixel = t_.pixel;
    M nan = hn::Gt(hn::Zero(d), hn::Zero(d));
    Columns columns;
    for (std::int64_t o = 0; o < w.output; ++o) {
      const std::int64_t k0 = w.first_tap(o), k1 = w.end_tap(o);
      for (int k = 0; k < kWindow; ++k) {
        const std::int64_t column = std::clamp<std::int64_t>(k, k0, k1 - 1);
        columns.offset[k] = column * w.dilation * unit;
        columns.tap[k] = static_cast<Tap>(column);
      }
      const std::int64_t at = w.position(o, 0) * unit;
      // The last vector may overlap the one before it.
      for (std::int64_t i = 0; i < pixel; i += lanes(d)) {
        const std::int64_t c = kPlace == Place::pixel ? std::min(i, pixel - lanes(d)) : i;
        tile_vector<kNan, kPlace>(source, count, columns, hn::Set(DI(), columns.tap[0]), at + c, rows, o * pixel + c,
                                  nan);
      }
    }
    return !hn::AllFalse(d, nan);
  }

  // The rows of x that the next tiles read first, as far as this one's newest are apart from them; where channels are
  // innermost, and rows long, what this tile reads next. Processors do not follow so many rows across the borders of
  // pages.
  template <Place kPlace>
  HWY_INLINE void prefetch_rows(const Source& source, std::int64_t at) const {
    constexpr std::int64_t kLine = 64 / sizeof(T);
#pragma GCC unroll 8
    for (int r = kTileRows - kTogether * kStride; r < kTileRows; ++r) {
      if constexpr (is_pixel(kPlace)) {
        const T* row = source.x[r] + at + kPixelsAhead / static_cast<std::int64_t>(sizeof(T));
        for (int column = 0; column < kStride; ++column) __builtin_prefetch(row + column * t_.unit);
      } else {
        const T* row = source.x[r] + at + ahead_;
        for (std::int64_t i = 0; i < kStride * lanes(D()); i += kLine) __builtin_prefetch(row + i);
      }
    }
  }

  // (Vectors by name: there are no arrays of scalable ones.)
  template <bool kNan, Place kPlace>
  HWY_INLINE void tile_vector(const Source& source, int count, const Columns& columns, VI first, std::int64_t at,
                              const Found (&rows)[kTogether], std::int64_t to, M& nan) const {
    const D d;
    const DI di;
    prefetch_rows<kPlace>(source, at);
    V best0 = hn::Zero(d), best1 = best0, best2 = best0, best3 = best0;
    V value0 = best0, value1 = best0, value2 = best0, value3 = best0;
    VI tap0 = first, tap1 = first, tap2 = first, tap3 = first;
    tile_rows<kNan, kPlace, false, 0>(source, columns, first, at, nan, best0, best1, best2, best3, value0, value1,
                                      value2, value3, tap0, tap1, tap2, tap3);
    for (int kd = 1; kd < count; ++kd) {
      prefetch_rows<kPlace>(sources_[kd], at);
      tile_rows<kNan, kPlace, true, 0>(sources_[kd], columns, first, at, nan, best0, best1, best2, best3, value0,
                                       value1, value2, value3, tap0, tap1, tap2, tap3);
    }
    constexpr Tap kNext = kStride * kWindow;  // taps from the first one of a row of windows to that of the next
    put<kPlace>(best0, value0, tap0, rows[0], to, nan);
    put<kPlace>(best1, value1, hn::Sub(tap1, hn::Set(di, kNext)), rows[1], to, nan);
    if constexpr (kTogether == 4) {
      put<kPlace>(best2, value2, hn::Sub(tap2, hn::Set(di, 2 * kNext)), rows[2], to, nan);
      put<kPlace>(best3, value3, hn::Sub(tap3, hn::Set(di, 3 * kNext)), rows[3], to, nan);
    }
  }

  // kMore: the windows have candidates already.
  template <bool kNan, Place kPlace, bool kMore, int kRow>
  HWY_INLINE void tile_rows(const Source& source, const Columns& columns, VI first, std::int64_t at, M& nan, V& best0,
                            V& best1, V& best2, V& best3, V& value0, V& value1, V& value2, V& value3, VI& tap0,
                            VI& tap1, VI& tap2, VI& tap3) const {
    if constexpr (kRow < kTileRows) {
      const T* x = source.x[kRow] + at;
      V row_key = hn::Zero(D()), row_value = row_key;
      VI along = first;
      if constexpr (kStride == 2 && !is_pixel(kPlace)) {
        along_pairs<kNan, kPlace>(x, at, nan, row_key, row_value, along);
      } else {
        along_columns<kNan, kPlace, 0>(x, columns, at, row_key, nan, row_key, row_value, along);
      }
      const VI found = hn::Add(along, hn::Set(DI(), source.tap[kRow]));
      offer<kNan, kMore, kRow>(row_key, row_value, found, best0, value0, tap0);
      offer<kNan, kMore, kRow - kStride>(row_key, row_value, found, best1, value1, tap1);
      if constexpr (kTogether == 4) {
        offer<kNan, kMore, kRow - 2 * kStride>(row_key, row_value, found, best2, value2, tap2);
        offer<kNan, kMore, kRow - 3 * kStride>(row_key, row_value, found, best3, value3, tap3);
      }
      tile_rows<kNan, kPlace, kMore, kRow + 1>(source, columns, first, at, nan, best0, best1, best2, best3, value0,
                                               value1, value2, value3, tap0, tap1, tap2, tap3);
    }
  }

  // A row's columns, of windows from column `at` of x on. One comparison looks for a NaN of f32 in two vectors; inside
  // a row, in the first column only.
  template <bool kNan, Place kPlace, int k>
  HWY_INLINE void along_columns(const T* x, const Columns& columns, std::int64_t at, V last, M& nan, V& best, V& value,
                                VI& tap) const {
    if constexpr (k < kWindow) {
      const V v = column<kPlace>(x + columns.offset[k], at, k);
      if constexpr (!kNan && !kIsKeyed && (kPlace == Place::inside ? k == 0 : k % 2 == 1 || k + 1 == kWindow)) {
        nan = hn::Or(nan, either_is_nan(D(), v, k == 0 ? v : last));
      }
      if constexpr (k == 0) {
        best = key_of<kNan>(v);
        value = v;
      } else {
        take<kNan>(key_of<kNan>(v), v, hn::Set(DI(), columns.tap[k]), best, value, tap);
      }
      along_columns<kNan, kPlace, k + 1>(x, columns, at, v, nan, best, value, tap);
    }
  }
  template <bool kNan, Place kPlace>
  HWY_INLINE void along_pairs(const T* x, std::int64_t at, M& nan, V& best, V& value, VI& tap) const {
    const D d;
    V even, second;
    load_pairs(d, x, even, second);
    value = without_padding<kPlace>(even, at, 0);
    second = without_padding<kPlace>(second, at, 1);
    if constexpr (!kNan && !kIsKeyed) nan = hn::Or(nan, either_is_nan(d, value, second));
    best = key_of<kNan>(value);
    take<kNan>(key_of<kNan>(second), second, hn::Set(DI(), 1), best, value, tap);
    if constexpr (kWindow == 3) {
      V third = next_pairs(d, x, even);
      third = without_padding<kPlace>(third, at, 2);
      if constexpr (kPlace == Place::edge && !kNan && !kIsKeyed) nan = hn::Or(nan, hn::IsNaN(third));
      take<kNan>(key_of<kNan>(third), third, hn::Set(DI(), 2), best, value, tap);
    }
  }

  // To windows of which it is row kRow.
  template <bool kNan, bool kMore, int kRow>
  static HWY_INLINE void offer(V row_key, V row_value, VI found, V& best, V& value, VI& tap) {
    if constexpr (kRow == 0 && !kMore) {
      best = row_key;
      value = row_value;
      tap = found;
    } else if constexpr (kRow >= 0 && kRow < kWindow) {
      take<kNan>(row_key, row_value, found, best, value, tap);
    }
  }

  const PoolTiles& t_;
  const PoolTensor& x_;
  const T* data_;
  const Layout& layout_;
  Tap* first_;
  T* rows_;
  Source* sources_;
  Found spare_;  // takes the rows of a tile that are not there
  std::int64_t n_ = 0, c_ = 0, od_ = 0;
  std::int64_t ahead_ = 0;  // elements
};

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BP_OPS_MAX_POOL_CPU_TILE_SEARCH_INL_H
