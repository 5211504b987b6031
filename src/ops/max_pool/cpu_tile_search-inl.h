// SPDX-License-Identifier: Apache-2.0
// The search for winners where the window along W is known to the compiler. Compiled once for each instruction set.
//
// Values are compared as f32, which holds every f16 and bf16. A strictly greater one takes over, so the first of equals
// stays; a search starts with -infinity at the window's first tap that exists, and padding is -infinity. Where a row
// has a NaN, which is rare, its windows are searched by the rule for NaN as well: the first one takes over and stays.
//
// With stride 1 the search is separable: along W once for every row of x, then over the rows of a window, which keeps
// the leftmost of the topmost. With stride 2 most rows have one window only, and all its taps are searched at once.

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

// a[0] b[0] a[1] b[1] ...: the first vector of it, and the second.
template <class D, class V>
HWY_INLINE V interleave_lower(D d, V a, V b) {
#if HWY_TARGET == HWY_AVX3
  const __m512i order = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  return V{_mm512_permutex2var_ps(a.raw, order, b.raw)};
#elif HWY_TARGET == HWY_AVX2
  return hn::ConcatLowerLower(d, hn::InterleaveUpper(d, a, b), hn::InterleaveLower(d, a, b));
#else
  HWY_ALIGN float pairs[2 * hn::MaxLanes(D())];
  hn::StoreInterleaved2(a, b, d, pairs);
  return hn::Load(d, pairs);
#endif
}
template <class D, class V>
HWY_INLINE V interleave_upper(D d, V a, V b) {
#if HWY_TARGET == HWY_AVX3
  const __m512i order = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  return V{_mm512_permutex2var_ps(a.raw, order, b.raw)};
#elif HWY_TARGET == HWY_AVX2
  return hn::ConcatUpperUpper(d, hn::InterleaveUpper(d, a, b), hn::InterleaveLower(d, a, b));
#else
  HWY_ALIGN float pairs[2 * hn::MaxLanes(D())];
  hn::StoreInterleaved2(a, b, d, pairs);
  return hn::Load(d, pairs + lanes(d));
#endif
}

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
  static constexpr float kLowest = -std::numeric_limits<float>::infinity();

 public:
  struct Layout {
    std::int64_t ring = 1;   // rows of x that are kept of a plane: row h in slot h mod ring
    std::int64_t pitch = 0;  // lanes of a row in scratch memory
    std::size_t first = 0, linear = 0, rows = 0, taps = 0, has_nan = 0, sources = 0;

    Layout() = default;
    Layout(const PoolTiles& t, ScratchLayout& scratch) {
      const PoolAxis &d = t.g.axes[0], &h = t.g.axes[1], &w = t.g.axes[2];
      ring = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(h.extent())));
      pitch = std::max(w.output + w.extent(), w.start_padding + w.input) * t.unit + 4 * kSlack;
      const std::int64_t slots = d.window * ring;
      const bool planar = t.unit == 1;
      first = scratch.reserve(planar ? w.output + kSlack : 0, sizeof(std::int32_t));
      linear = scratch.reserve(planar && kStride == 1 ? pitch : 0, sizeof(float));
      rows = scratch.reserve(kStride == 1 ? slots * pitch : planar ? 2 * slots * pitch : 0, sizeof(float));
      taps = scratch.reserve(kStride == 1 ? slots * pitch : 0, sizeof(std::int32_t));
      has_nan = scratch.reserve(slots, 1);
      sources = scratch.reserve(d.window * h.window, sizeof(Source));
    }
  };

  TileSearch(const PoolTiles& tiles, const PoolTensor& x, const T* data, const Layout& layout, std::byte* scratch)
      : t_(tiles),
        x_(x),
        data_(data),
        layout_(layout),
        first_(reinterpret_cast<std::int32_t*>(scratch + layout.first)),
        linear_(reinterpret_cast<float*>(scratch + layout.linear)),
        rows_(reinterpret_cast<float*>(scratch + layout.rows)),
        taps_(reinterpret_cast<std::int32_t*>(scratch + layout.taps)),
        has_nan_(reinterpret_cast<bool*>(scratch + layout.has_nan)),
        sources_(reinterpret_cast<Source*>(scratch + layout.sources)) {
    if (layout.pitch == 0) return;  // nothing is sought
    if (t_.unit > 1) return;
    const PoolAxis& w = axis_w();
    for (std::int64_t o = 0; o < w.output; ++o) first_[o] = static_cast<std::int32_t>(w.first_tap(o));
    const std::int64_t slots = t_.g.axes[0].window * layout.ring;
    const std::int64_t padded = kStride == 1 ? 1 : 2 * slots;
    for (std::int64_t i = 0; i < padded; ++i) {
      std::fill_n((kStride == 1 ? linear_ : rows_) + i * layout.pitch, w.start_padding, kLowest);
    }
  }

  // Another plane of windows, from its row `o` on.
  void start(std::int64_t n, std::int64_t c, std::int64_t od) {
    n_ = n;
    c_ = c;
    od_ = od;
    next_ = -1;
  }

  // The winners of the windows of row o, as numbers of taps, and, unless null, their values. Rows come in ascending
  // order. Up to a vector beyond the row may be written. Returns whether there may be a NaN among them.
  template <class Tap>
  bool find(std::int64_t o, Tap* taps, float* values) {
    const PoolAxis &d = t_.g.axes[0], &h = t_.g.axes[1];
    const std::int64_t kd0 = d.first_tap(od_), kd1 = d.end_tap(od_);
    const std::int64_t kh0 = h.first_tap(o), kh1 = h.end_tap(o);
    const bool reads_in_place = kStride == 2 && t_.unit > 1;
    if (!reads_in_place) {
      if (next_ < 0) next_ = std::max<std::int64_t>(h.position(o, 0), 0);
      for (const std::int64_t last = h.position(o, kh1 - 1); next_ <= last; ++next_) {
        for (std::int64_t kd = kd0; kd < kd1; ++kd) read_row(kd, next_);
      }
    }
    int count = 0;
    bool has_nan = false;
    for (std::int64_t kd = kd0; kd < kd1; ++kd) {
      for (std::int64_t kh = kh0; kh < kh1; ++kh) {
        const std::int64_t p = h.position(o, kh);
        Source& source = sources_[count++];
        source.tap = static_cast<std::int32_t>((kd * kWindow + kh) * kWindow);
        if (reads_in_place) {
          source.x = row_of_x(kd, p);
        } else {
          const std::int64_t s = slot(kd, p);
          source.row = rows_ + (kStride == 1 ? s : 2 * s) * layout_.pitch;
          source.taps = taps_ + s * layout_.pitch;
          has_nan |= has_nan_[s];
        }
      }
    }
    if constexpr (kStride == 1) {
      if (has_nan) {
        over_rows<true>(count, taps, values);
      } else {
        over_rows<false>(count, taps, values);
      }
    } else if (t_.unit == 1) {
      if (has_nan) {
        along_lanes<true>(count, taps, values);
      } else {
        along_lanes<false>(count, taps, values);
      }
    } else {
      has_nan = along_pixels<false>(count, taps, values);
      if (has_nan) along_pixels<true>(count, taps, values);
    }
    return has_nan;
  }

 private:
  // A row of x that a window reads, in scratch memory or where it lies; its first tap.
  struct Source {
    const T* x;
    const float* row;
    const std::int32_t* taps;
    std::int32_t tap;
  };

  // Sources whose count the compiler knows (kCount > 0) stay in registers.
  template <int kCount>
  struct Sources {
    Source own[kCount > 0 ? kCount : 1];
    const Source* all;
    explicit Sources(const Source* from) : all(from) {
      for (int r = 0; r < kCount; ++r) own[r] = from[r];
    }
    const Source& operator[](int r) const { return kCount > 0 ? own[r] : all[r]; }
  };

  [[nodiscard]] const PoolAxis& axis_w() const { return t_.g.axes[2]; }
  [[nodiscard]] std::int64_t slot(std::int64_t kd, std::int64_t h) const {
    return kd * layout_.ring + (h & (layout_.ring - 1));
  }
  [[nodiscard]] const T* row_of_x(std::int64_t kd, std::int64_t h) const {
    const Dims& s = x_.view.strides;
    return data_ + n_ * s[0] + c_ * s[1] + t_.g.axes[0].position(od_, kd) * s[2] + h * s[3];
  }

  // ---- Rows of x

  HWY_NOINLINE void read_row(std::int64_t kd, std::int64_t h) {
    const std::int64_t s = slot(kd, h);
    const T* x = row_of_x(kd, h);
    if constexpr (kStride == 1) {
      std::int32_t* taps = taps_ + s * layout_.pitch;
      float* values = rows_ + s * layout_.pitch;
      sources_[0] = {.x = x, .row = linear_, .taps = nullptr, .tap = 0};
      if (t_.unit == 1) {
        has_nan_[s] = import_row(x, linear_);
        if (has_nan_[s]) {
          along_lanes<true>(1, taps, values);
        } else {
          along_lanes<false>(1, taps, values);
        }
      } else {
        has_nan_[s] = along_pixels<false>(1, taps, values);
        if (has_nan_[s]) along_pixels<true>(1, taps, values);
      }
    } else {
      has_nan_[s] = import_phases(x, rows_ + 2 * s * layout_.pitch);
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
    auto sum = hn::Zero(d);
    std::int64_t i = 0;
    for (; i < std::min(n, whole); i += lanes(d)) {
      const V v = load(d, x + i);
      sum = hn::Or(sum, hn::IfThenElseZero(hn::IsNaN(v), v));
      hn::StoreU(v, d, to + i);
    }
    if (i < n) {
      const V v = load_first(d, x + i, n - i);
      sum = hn::Or(sum, hn::IfThenElseZero(hn::IsNaN(v), v));
      hn::StoreU(v, d, to + i);
    }
    pad(to + n, w.output - 1 + w.extent() - (w.start_padding + n));
    return !hn::AllFalse(d, hn::IsNaN(sum));
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
    auto sum = hn::Zero(d);
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
      sum = hn::Or(sum, hn::IfThenElseZero(hn::IsNaN(a), a));
      sum = hn::Or(sum, hn::IfThenElseZero(hn::IsNaN(b), b));
      hn::StoreU(a, d, even + i / 2);
      hn::StoreU(b, d, odd + i / 2);
    }
    const std::int64_t columns = (w.output - 1) * kStride + kWindow;
    const std::int64_t behind = (columns - (p + n)) / 2 + 1;
    pad(even + (n + 1) / 2, behind);
    pad(odd + n / 2, behind);
    return !hn::AllFalse(d, hn::IsNaN(sum));
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

  // ---- The search

  template <bool kNan>
  static HWY_INLINE auto takes_over(V v, V best) {
    if constexpr (kNan) {
      return hn::Or(hn::Gt(v, best), hn::AndNot(hn::IsNaN(best), hn::IsNaN(v)));
    } else {
      return hn::Gt(v, best);
    }
  }

  template <bool kNan, class VI>
  static HWY_INLINE void take(V v, VI tap_there, V& best, VI& tap) {
    const auto over = takes_over<kNan>(v, best);
    best = hn::IfThenElse(over, v, best);
    tap = hn::IfThenElse(hn::RebindMask(DI(), over), tap_there, tap);
  }

  template <class Tap, class VI>
  static HWY_INLINE void put(V best, VI tap, Tap* taps, float* values, std::int64_t i) {
    const D d;
    const DI di;
    hn::StoreU(narrowed<Tap>(di, tap), hn::Rebind<Tap, DI>(), taps + i);
    if (values != nullptr) hn::StoreU(best, d, values + i);
  }

  // The taps along W of rows in scratch memory.
  template <bool kNan, class Tap>
  HWY_INLINE void along_lanes(int count, Tap* taps, float* values) const {
    if (count == kWindow) {
      along_lanes<kNan, kWindow>(count, taps, values);
    } else {
      along_lanes<kNan, 0>(count, taps, values);
    }
  }
  template <bool kNan, int kCount, class Tap>
  HWY_INLINE void along_lanes(int count, Tap* taps, float* values) const {
    const D d;
    const DI di;
    const std::int64_t step = kStride == 1 ? axis_w().dilation : layout_.pitch;
    const std::int64_t n = axis_w().output;
    const Sources<kCount> sources(sources_);
    for (std::int64_t i = 0; i < n; i += lanes(d)) {
      V best = hn::Set(d, kLowest);
      auto tap = hn::Add(hn::LoadU(di, first_ + i), hn::Set(di, sources[0].tap));
      if constexpr (kCount > 0) {
        take_rows<kNan, kCount, 0>(sources, step, i, best, tap);
      } else {
        for (int r = 0; r < count; ++r) take_row<kNan>(sources[r], step, i, best, tap);
      }
      put(best, tap, taps, values, i);
    }
  }

  template <bool kNan, int kCount, int kRow, class VI>
  static HWY_INLINE void take_rows(const Sources<kCount>& sources, std::int64_t step, std::int64_t i, V& best,
                                   VI& tap) {
    if constexpr (kRow < kCount) {
      take_row<kNan>(sources[kRow], step, i, best, tap);
      take_rows<kNan, kCount, kRow + 1>(sources, step, i, best, tap);
    }
  }
  template <bool kNan, int k = 0, class VI>
  static HWY_INLINE void take_row(const Source& source, std::int64_t step, std::int64_t i, V& best, VI& tap) {
    if constexpr (k < kWindow) {
      const V v = hn::LoadU(D(), source.row + i + (kStride == 1 ? k * step : k % 2 * step + k / 2));
      take<kNan>(v, hn::Set(DI(), source.tap + k), best, tap);
      take_row<kNan, k + 1>(source, step, i, best, tap);
    }
  }

  // The same where channels are innermost, for rows of x where they lie: the windows' columns one after the other.
  // Returns whether there is a NaN, which without kNan has been taken for a number.
  template <bool kNan, class Tap>
  HWY_INLINE bool along_pixels(int count, Tap* taps, float* values) const {
    const PoolAxis& w = axis_w();
    const std::int64_t unit = t_.unit;
    bool has_nan = false;
    for (std::int64_t o = 0; o < w.output; ++o) {
      const std::int64_t k0 = w.first_tap(o), k1 = w.end_tap(o);
      float* to = values == nullptr ? nullptr : values + o * unit;
      has_nan |= k0 == 0 && k1 == kWindow
                     ? pixel<kNan, true>(count, w.position(o, 0) * unit, 0, kWindow, taps + o * unit, to)
                     : pixel<kNan, false>(count, w.position(o, 0) * unit, k0, k1, taps + o * unit, to);
    }
    return has_nan;
  }

  template <bool kNan, bool kWhole, class Tap>
  HWY_INLINE bool pixel(int count, std::int64_t at, std::int64_t k0, std::int64_t k1, Tap* taps, float* values) const {
    const D d;
    const DI di;
    const std::int64_t step = axis_w().dilation * t_.unit;
    auto nans = hn::Zero(d);
    for (std::int64_t c = 0; c < t_.unit; c += lanes(d)) {
      V best = hn::Set(d, kLowest);
      auto tap = hn::Set(di, sources_[0].tap + static_cast<std::int32_t>(k0));
      for (int r = 0; r < count; ++r) {
        const T* x = sources_[r].x + at + c;
        if constexpr (kWhole) {
          take_taps<kNan>(x, step, sources_[r].tap, best, tap, nans);
        } else {
          for (std::int64_t k = k0; k < k1; ++k) {
            take_tap<kNan>(x + k * step, sources_[r].tap + static_cast<std::int32_t>(k), best, tap, nans);
          }
        }
      }
      put(best, tap, taps, values, c);
    }
    return !kNan && !hn::AllFalse(d, hn::IsNaN(nans));
  }

  template <bool kNan, class VI>
  static HWY_INLINE void take_tap(const T* x, std::int32_t number, V& best, VI& tap, V& nans) {
    const V v = load(D(), x);
    if constexpr (!kNan) nans = hn::Or(nans, hn::IfThenElseZero(hn::IsNaN(v), v));
    take<kNan>(v, hn::Set(DI(), number), best, tap);
  }
  template <bool kNan, int k = 0, class VI>
  static HWY_INLINE void take_taps(const T* x, std::int64_t step, std::int32_t number, V& best, VI& tap, V& nans) {
    if constexpr (k < kWindow) {
      take_tap<kNan>(x + k * step, number + k, best, tap, nans);
      take_taps<kNan, k + 1>(x, step, number, best, tap, nans);
    }
  }

  // Over rows that have been searched along W.
  template <bool kNan, class Tap>
  HWY_INLINE void over_rows(int count, Tap* taps, float* values) const {
    if (count == kWindow) {
      over_rows<kNan, kWindow>(count, taps, values);
    } else {
      over_rows<kNan, 0>(count, taps, values);
    }
  }
  template <bool kNan, int kCount, class Tap>
  HWY_INLINE void over_rows(int count, Tap* taps, float* values) const {
    const D d;
    const std::int64_t n = axis_w().output * t_.unit;
    const Sources<kCount> sources(sources_);
    for (std::int64_t i = 0; i < n; i += lanes(d)) {
      V best = hn::LoadU(d, sources[0].row + i);
      auto tap = tap_of(sources[0], i);
      if constexpr (kCount > 0) {
        merge_rows<kNan, kCount, 1>(sources, i, best, tap);
      } else {
        for (int r = 1; r < count; ++r) take<kNan>(hn::LoadU(d, sources[r].row + i), tap_of(sources[r], i), best, tap);
      }
      put(best, tap, taps, values, i);
    }
  }
  template <bool kNan, int kCount, int kRow, class VI>
  static HWY_INLINE void merge_rows(const Sources<kCount>& sources, std::int64_t i, V& best, VI& tap) {
    if constexpr (kRow < kCount) {
      take<kNan>(hn::LoadU(D(), sources[kRow].row + i), tap_of(sources[kRow], i), best, tap);
      merge_rows<kNan, kCount, kRow + 1>(sources, i, best, tap);
    }
  }
  static HWY_INLINE auto tap_of(const Source& source, std::int64_t i) {
    const DI di;
    return hn::Add(hn::LoadU(di, source.taps + i), hn::Set(di, source.tap));
  }

  const PoolTiles& t_;
  const PoolTensor& x_;
  const T* data_;
  const Layout& layout_;
  std::int32_t* first_;
  float *linear_, *rows_;
  std::int32_t* taps_;
  bool* has_nan_;
  Source* sources_;
  std::int64_t n_ = 0, c_ = 0, od_ = 0, next_ = -1;
};

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BP_OPS_MAX_POOL_CPU_TILE_SEARCH_INL_H
