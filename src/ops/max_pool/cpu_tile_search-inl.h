// SPDX-License-Identifier: Apache-2.0
// The search for winners where the window along W is known to the compiler. Compiled once for each instruction set.
//
// Values are compared as f32, which holds every f16 and bf16. A strictly greater one takes over, so the first of equals
// stays. Where a row has a NaN, which is rare, its windows are searched by the rule for NaN as well: the first one
// takes over and stays.
//
// Two or four rows of windows are sought together, in registers: along W once for every row of x that they read, then
// over the rows of each window.

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

template <class T, int kWindow, int kStride>
class TileSearch {
  using D = TileLanes;
  using V = hn::Vec<D>;
  using DI = hn::RebindToSigned<D>;
  using VI = hn::Vec<DI>;
  using M = hn::Mask<D>;
  static constexpr float kLowest = -std::numeric_limits<float>::infinity();
  static constexpr std::int64_t kRowsAhead = 4;  // that a row of x is asked for before it is read
  static constexpr int kPhases = kStride;  // rows that a row of x becomes in scratch memory: columns of every phase
  static constexpr int kTogether = kStride == 1 ? 4 : 2;                 // rows of windows that are one tile
  static constexpr int kTileRows = kWindow + (kTogether - 1) * kStride;  // rows of x that it reads

 public:
  // The winners of a row of windows, as numbers of taps, and, unless null, their values.
  struct Found {
    std::uint8_t* taps;
    float* values;
  };

  struct Layout {
    std::int64_t ring = 1;   // rows of x that are kept of a plane: row h in slot h mod ring
    std::int64_t pitch = 0;  // lanes of a row in scratch memory
    std::size_t first = 0, rows = 0, has_nan = 0, sources = 0, spare_taps = 0, spare_values = 0;

    Layout() = default;
    Layout(const PoolTiles& t, ScratchLayout& scratch) {
      const PoolAxis &d = t.g.axes[0], &h = t.g.axes[1], &w = t.g.axes[2];
      const std::int64_t rows_read = (kTogether * h.dilation - 1) * kStride + h.extent();
      ring = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(rows_read)));
      const std::int64_t columns = std::max((w.output - 1) * kStride + w.extent(), w.start_padding + w.input);
      pitch = ceil_div(columns, kPhases) * t.unit + kSlack;
      const std::int64_t slots = d.window * ring;
      const bool planar = t.unit == 1;
      first = scratch.reserve(planar ? w.output + kSlack : 0, sizeof(std::int32_t));
      rows = scratch.reserve(planar ? kPhases * slots * pitch : 0, sizeof(float));
      has_nan = scratch.reserve(slots, 1);
      sources = scratch.reserve(d.window, sizeof(Source));
      spare_taps = scratch.reserve(pitch, 1);
      spare_values = scratch.reserve(pitch, sizeof(float));
    }
  };

  TileSearch(const PoolTiles& tiles, const PoolTensor& x, const T* data, const Layout& layout, std::byte* scratch)
      : t_(tiles),
        x_(x),
        data_(data),
        layout_(layout),
        first_(reinterpret_cast<std::int32_t*>(scratch + layout.first)),
        rows_(reinterpret_cast<float*>(scratch + layout.rows)),
        has_nan_(reinterpret_cast<std::uint8_t*>(scratch + layout.has_nan)),
        sources_(reinterpret_cast<Source*>(scratch + layout.sources)),
        spare_{reinterpret_cast<std::uint8_t*>(scratch + layout.spare_taps),
               reinterpret_cast<float*>(scratch + layout.spare_values)} {
    if (layout.pitch == 0) return;  // nothing is sought
    if (t_.unit > 1) return;
    const PoolAxis& w = axis_w();
    for (std::int64_t o = 0; o < w.output; ++o) first_[o] = static_cast<std::int32_t>(w.first_tap(o));
    const std::int64_t rows = t_.g.axes[0].window * layout.ring * kPhases;
    for (std::int64_t i = 0; i < rows; ++i) std::fill_n(rows_ + i * layout.pitch, w.start_padding, kLowest);
  }

  // How many rows of windows are sought at once.
  [[nodiscard]] std::int64_t rows_at_once() const { return kTogether * axis_h().dilation; }

  // Another plane of windows, from its row `o` on.
  void start(std::int64_t n, std::int64_t c, std::int64_t od) {
    n_ = n;
    c_ = c;
    od_ = od;
    next_ = -1;
  }

  // Seeks the winners of `count` rows of windows from row o on, at most as many as are sought at once, and puts those
  // of row o + r where found(r) says. Rows come in ascending order. Returns whether there may be a NaN among them.
  template <class F>
  bool find(std::int64_t o, std::int64_t count, const F& found) {
    const PoolAxis& h = axis_h();
    if (!reads_in_place()) read_rows(o, std::min(h.position(o + count - 1, kWindow - 1), h.input - 1));
    bool has_nan = false;
    for (std::int64_t j = 0; j < std::min(count, h.dilation); ++j) {
      Found rows[kTogether];
      for (int k = 0; k < kTogether; ++k) {
        const std::int64_t row = j + k * h.dilation;
        rows[k] = row < count ? found(row) : spare_;
        if (rows[0].values == nullptr) rows[k].values = nullptr;
      }
      has_nan |= find_tile(o + j, rows);
    }
    return has_nan;
  }

 private:
  // The rows of one plane of x that a tile reads, in scratch memory or where they lie, and the number that the first
  // tap of each has in the tile's first row of windows.
  struct Source {
    const T* x[kTileRows];
    const float* row[kTileRows];
    std::int32_t tap[kTileRows];
  };
  struct Columns {
    std::int64_t offset[kWindow];
    std::int32_t tap[kWindow];
  };

  [[nodiscard]] const PoolAxis& axis_h() const { return t_.g.axes[1]; }
  [[nodiscard]] const PoolAxis& axis_w() const { return t_.g.axes[2]; }
  [[nodiscard]] bool reads_in_place() const { return t_.unit > 1; }
  [[nodiscard]] std::int64_t slot(std::int64_t kd, std::int64_t h) const {
    return kd * layout_.ring + (h & (layout_.ring - 1));
  }
  [[nodiscard]] const T* row_of_x(std::int64_t kd, std::int64_t h) const {
    const Dims& s = x_.view.strides;
    return data_ + n_ * s[0] + c_ * s[1] + t_.g.axes[0].position(od_, kd) * s[2] + h * s[3];
  }

  // ---- Rows of x

  // All rows of x that windows from row o on read, up to row `last`.
  HWY_NOINLINE void read_rows(std::int64_t o, std::int64_t last) {
    const PoolAxis& d = t_.g.axes[0];
    if (next_ < 0) next_ = std::max<std::int64_t>(axis_h().position(o, 0), 0);
    for (; next_ <= last; ++next_) {
      for (std::int64_t kd = d.first_tap(od_); kd < d.end_tap(od_); ++kd) {
        const std::int64_t s = slot(kd, next_);
        const T* x = row_of_x(kd, next_);
        prefetch(x + kRowsAhead * x_.view.strides[3], axis_w().input);
        float* row = rows_ + s * kPhases * layout_.pitch;
        has_nan_[s] = (kStride == 1 ? import_row(x, row) : import_phases(x, row)) ? 1 : 0;
      }
    }
  }

  std::int64_t readable(const T* x) const { return x_.end < 0 ? axis_w().input : x_.end - (x - data_); }

  // A row of x between its padding. Returns whether it (or what follows it in memory) has a NaN.
  bool import_row(const T* x, float* row) const {
    const D d;
    const PoolAxis& w = axis_w();
    float* to = row + w.start_padding;
    const std::int64_t n = w.input;
    const std::int64_t whole = std::min(readable(x), n + lanes(d) - 1) / lanes(d) * lanes(d);
    M nan = hn::IsNaN(hn::Zero(d));
    std::int64_t i = 0;
    for (; i < std::min(n, whole); i += lanes(d)) {
      const V v = load(d, x + i);
      nan = hn::Or(nan, hn::IsNaN(v));
      hn::StoreU(v, d, to + i);
    }
    if (i < n) {
      const V v = load_first(d, x + i, n - i);
      nan = hn::Or(nan, hn::IsNaN(v));
      hn::StoreU(v, d, to + i);
    }
    pad(to + n, w.output - 1 + w.extent() - (w.start_padding + n));
    return !hn::AllFalse(d, nan);
  }

  // -infinity from p on, at least one vector of it.
  static HWY_INLINE void pad(float* p, std::int64_t n) {
    const D d;
    for (std::int64_t i = 0; i == 0 || i < n; i += lanes(d)) hn::StoreU(hn::Set(d, kLowest), d, p + i);
  }

  // A row of x as two: column q, counted from the start of the padding, is element q / 2 of the first where q is even,
  // of the second where it is odd.
  bool import_phases(const T* x, float* row) const {
    const D d;
    const PoolAxis& w = axis_w();
    const std::int64_t p = w.start_padding, n = w.input;
    float* even = row + (p % 2 != 0 ? layout_.pitch : 0) + p / 2;
    float* odd = row + (p % 2 != 0 ? 0 : layout_.pitch) + (p + 1) / 2;
    const std::int64_t limit = readable(x);
    M nan = hn::IsNaN(hn::Zero(d));
    std::int64_t i = 0;
    HWY_ALIGN T rest[2 * hn::MaxLanes(D())] = {};
    for (; i < n; i += 2 * lanes(d)) {
      const T* from = x + i;
      if (i + 2 * lanes(d) > limit) {
        std::memcpy(rest, from, static_cast<std::size_t>(n - i) * sizeof(T));
        from = rest;
      }
      V a, b;
      load_pairs(d, from, a, b);
      nan = hn::Or(nan, either_is_nan(d, a, b));
      hn::StoreU(a, d, even + i / 2);
      hn::StoreU(b, d, odd + i / 2);
    }
    const std::int64_t columns = (w.output - 1) * kStride + kWindow;
    const std::int64_t behind = (columns - (p + n)) / 2 + 1;
    pad(even + (n + 1) / 2, behind);
    pad(odd + n / 2, behind);
    return !hn::AllFalse(d, nan);
  }

  static HWY_INLINE void load_pairs(D d, const T* from, V& a, V& b) {
    if constexpr (std::is_same_v<T, float>) {
      hn::LoadInterleaved2(d, from, a, b);
    } else {
#if HWY_TARGET == HWY_SCALAR
      a = load(d, from);
      b = load(d, from + 1);
#else
      const V lower = load(d, from), upper = load(d, from + lanes(d));
      a = hn::ConcatEven(d, upper, lower);
      b = hn::ConcatOdd(d, upper, lower);
#endif
    }
  }

  // ---- One more candidate

  template <bool kNan>
  static HWY_INLINE M takes_over(V v, V best) {
    if constexpr (kNan) {
      return hn::Or(hn::Gt(v, best), hn::AndNot(hn::IsNaN(best), hn::IsNaN(v)));
    } else {
      return hn::Gt(v, best);
    }
  }

  template <bool kNan>
  static HWY_INLINE void take(V v, VI tap_there, V& best, VI& tap) {
    const M over = takes_over<kNan>(v, best);
    best = hn::IfThenElse(over, v, best);
    tap = hn::IfThenElse(hn::RebindMask(DI(), over), tap_there, tap);
  }

  static HWY_INLINE void put(V best, VI tap, const Found& found, std::int64_t i) {
    const D d;
    const DI di;
    hn::StoreU(narrowed<std::uint8_t>(di, tap), hn::Rebind<std::uint8_t, DI>(), found.taps + i);
    if (found.values != nullptr) hn::StoreU(best, d, found.values + i);
  }

  // ---- A tile
  //
  // Each row of x is searched along W once, and what is found offered to all rows of windows that it is in. Where a row
  // or column of a window is padding, its nearest one that exists stands in once more, with its own number: an
  // equal never takes over, so that changes nothing.

  bool find_tile(std::int64_t o, const Found (&rows)[kTogether]) {
    const PoolAxis &d = t_.g.axes[0], &h = axis_h();
    const std::int64_t start = h.position(o, 0);
    const std::int64_t low = start >= 0 ? 0 : ceil_div(-start, h.dilation);
    const std::int64_t high = (h.input - 1 - start) / h.dilation;
    int count = 0;
    bool has_nan = false;
    for (std::int64_t kd = d.first_tap(od_); kd < d.end_tap(od_); ++kd, ++count) {
      Source& source = sources_[count];
      for (int r = 0; r < kTileRows; ++r) {
        const std::int64_t row = std::clamp<std::int64_t>(r, low, high);
        const std::int64_t p = start + row * h.dilation;
        source.tap[r] = static_cast<std::int32_t>((kd * kWindow + row) * kWindow);
        if (reads_in_place()) {
          source.x[r] = row_of_x(kd, p);
        } else {
          source.row[r] = rows_ + slot(kd, p) * kPhases * layout_.pitch;
          has_nan |= has_nan_[slot(kd, p)] != 0;
        }
      }
    }
    if (reads_in_place()) {
      has_nan = tile_of_pixels<false>(count, rows);
      if (has_nan) tile_of_pixels<true>(count, rows);
    } else if (has_nan) {
      tile_of_lanes<true>(count, rows);
    } else {
      tile_of_lanes<false>(count, rows);
    }
    return has_nan;
  }

  template <bool kNan>
  HWY_NOINLINE void tile_of_lanes(int count, const Found (&rows)[kTogether]) const {
    const D d;
    const Source& source = sources_[0];  // (a copy would be one wide load of many stores, and wait for them all)
    Columns columns;
    for (int k = 0; k < kWindow; ++k) {
      columns.offset[k] = kStride == 1 ? k * axis_w().dilation : k % 2 * layout_.pitch + k / 2;
      columns.tap[k] = k;
    }
    const std::int64_t n = axis_w().output;
    M nan = hn::IsNaN(hn::Zero(d));
    // Padding is -infinity, which takes over from nothing: so a window may begin with its first tap's value whether it
    // exists or not, and with the number of the first one that does.
    if (n < lanes(d)) return tile_of_few<kNan>(source, count, columns, rows);
    for (std::int64_t j = 0; j < n; j += lanes(d)) {
      // The last vector overlaps the one before it, so that nothing of another row is overwritten.
      const std::int64_t i = std::min(j, n - lanes(d));
      tile_vector<kNan, false>(source, count, columns, hn::LoadU(DI(), first_ + i), i, rows, i, nan);
    }
  }

  // Of less than a vector.
  template <bool kNan>
  void tile_of_few(const Source& source, int count, const Columns& columns, const Found (&rows)[kTogether]) const {
    const D d;
    constexpr std::size_t kLanes = hn::MaxLanes(D());
    std::uint8_t taps[kTogether * kLanes];
    float values[kTogether * kLanes];
    Found found[kTogether];
    for (std::size_t k = 0; k < kTogether; ++k) found[k] = {taps + k * kLanes, values + k * kLanes};
    M nan = hn::IsNaN(hn::Zero(d));
    tile_vector<kNan, false>(source, count, columns, hn::LoadU(DI(), first_), 0, found, 0, nan);
    const auto n = static_cast<std::size_t>(axis_w().output);
    for (int k = 0; k < kTogether; ++k) {
      std::memcpy(rows[k].taps, found[k].taps, n);
      if (rows[k].values != nullptr) std::memcpy(rows[k].values, found[k].values, n * sizeof(float));
    }
  }

  // Where channels are innermost: the windows' columns one after the other. Returns whether there is a NaN, which
  // without kNan has been taken for a number.
  template <bool kNan>
  HWY_NOINLINE bool tile_of_pixels(int count, const Found (&rows)[kTogether]) const {
    const D d;
    const Source& source = sources_[0];
    const PoolAxis& w = axis_w();
    const std::int64_t unit = t_.unit;
    M nan = hn::IsNaN(hn::Zero(d));
    Columns columns;
    for (std::int64_t o = 0; o < w.output; ++o) {
      const std::int64_t k0 = w.first_tap(o), k1 = w.end_tap(o);
      for (int k = 0; k < kWindow; ++k) {
        const std::int64_t column = std::clamp<std::int64_t>(k, k0, k1 - 1);
        columns.offset[k] = column * w.dilation * unit;
        columns.tap[k] = static_cast<std::int32_t>(column);
      }
      const std::int64_t at = w.position(o, 0) * unit;
      for (std::int64_t c = 0; c < unit; c += lanes(d)) {
        tile_vector<kNan, true>(source, count, columns, hn::Set(DI(), columns.tap[0]), at + c, rows, o * unit + c, nan);
      }
    }
    return !hn::AllFalse(d, nan);
  }

  // (Vectors by name: there are no arrays of scalable ones.)
  template <bool kNan, bool kInPlace>
  HWY_INLINE void tile_vector(const Source& source, int count, const Columns& columns, VI first, std::int64_t at,
                              const Found (&rows)[kTogether], std::int64_t to, M& nan) const {
    const D d;
    const DI di;
    V best0 = hn::Zero(d), best1 = best0, best2 = best0, best3 = best0;
    VI tap0 = first, tap1 = first, tap2 = first, tap3 = first;
    tile_rows<kNan, kInPlace, false, 0>(source, columns, first, at, nan, best0, best1, best2, best3, tap0, tap1, tap2,
                                        tap3);
    for (int kd = 1; kd < count; ++kd) {
      tile_rows<kNan, kInPlace, true, 0>(sources_[kd], columns, first, at, nan, best0, best1, best2, best3, tap0, tap1,
                                         tap2, tap3);
    }
    constexpr int kNext = kStride * kWindow;  // taps from the first one of a row of windows to that of the next
    put(best0, tap0, rows[0], to);
    put(best1, hn::Sub(tap1, hn::Set(di, kNext)), rows[1], to);
    if constexpr (kTogether == 4) {
      put(best2, hn::Sub(tap2, hn::Set(di, 2 * kNext)), rows[2], to);
      put(best3, hn::Sub(tap3, hn::Set(di, 3 * kNext)), rows[3], to);
    }
  }

  // kMore: the windows have candidates already.
  template <bool kNan, bool kInPlace, bool kMore, int kRow>
  static HWY_INLINE void tile_rows(const Source& source, const Columns& columns, VI first, std::int64_t at, M& nan,
                                   V& best0, V& best1, V& best2, V& best3, VI& tap0, VI& tap1, VI& tap2, VI& tap3) {
    if constexpr (kRow < kTileRows) {
      const auto* x = row_of<kInPlace>(source, kRow) + at;
      V best = load(D(), x + columns.offset[0]);
      VI tap = first;
      along_columns<kNan, kInPlace, 1>(x, columns, best, nan, best, tap);
      tap = hn::Add(tap, hn::Set(DI(), source.tap[kRow]));
      offer<kNan, kMore, kRow>(best, tap, best0, tap0);
      offer<kNan, kMore, kRow - kStride>(best, tap, best1, tap1);
      if constexpr (kTogether == 4) {
        offer<kNan, kMore, kRow - 2 * kStride>(best, tap, best2, tap2);
        offer<kNan, kMore, kRow - 3 * kStride>(best, tap, best3, tap3);
      }
      tile_rows<kNan, kInPlace, kMore, kRow + 1>(source, columns, first, at, nan, best0, best1, best2, best3, tap0,
                                                 tap1, tap2, tap3);
    }
  }
  template <bool kInPlace>
  static HWY_INLINE auto row_of(const Source& source, int r) {
    if constexpr (kInPlace) {
      return source.x[r];
    } else {
      return source.row[r];
    }
  }

  // In place no one has looked for NaN yet: two are watched by one comparison.
  template <bool kNan, bool kInPlace, int k, class S>
  static HWY_INLINE void along_columns(const S* x, const Columns& columns, V last, M& nan, V& best, VI& tap) {
    if constexpr (k < kWindow) {
      const V v = load(D(), x + columns.offset[k]);
      if constexpr (kInPlace && !kNan && (k % 2 == 1 || k + 1 == kWindow)) {
        nan = hn::Or(nan, either_is_nan(D(), v, last));
      }
      take<kNan>(v, hn::Set(DI(), columns.tap[k]), best, tap);
      along_columns<kNan, kInPlace, k + 1>(x, columns, v, nan, best, tap);
    }
  }

  // To windows of which it is row kRow.
  template <bool kNan, bool kMore, int kRow>
  static HWY_INLINE void offer(V v, VI tap_there, V& best, VI& tap) {
    if constexpr (kRow == 0 && !kMore) {
      best = v;
      tap = tap_there;
    } else if constexpr (kRow >= 0 && kRow < kWindow) {
      take<kNan>(v, tap_there, best, tap);
    }
  }

  const PoolTiles& t_;
  const PoolTensor& x_;
  const T* data_;
  const Layout& layout_;
  std::int32_t* first_;
  float* rows_;
  std::uint8_t* has_nan_;
  Source* sources_;
  Found spare_;  // takes the rows of a tile that are not there
  std::int64_t n_ = 0, c_ = 0, od_ = 0, next_ = -1;
};

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BP_OPS_MAX_POOL_CPU_TILE_SEARCH_INL_H
