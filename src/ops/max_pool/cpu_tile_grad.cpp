// SPDX-License-Identifier: Apache-2.0
// The gradient of max pooling for windows known to the compiler.
//
// A tile is a few rows of dx that the same rows of windows reach. An element
// of dx is the sum over the windows that reach it, in ascending order, of dy where the winner is that element; which
// windows those are is known to the compiler. dy and stored winners are read where they lie, beyond the ends of their
// rows too, where something else stands: a row of marks, the same for all, turns what is no window into one without a
// winner. (A copy of the winners, padded, is a trap: loads that cross two stores wait for both to leave the queue, and
// there they stand behind non-temporal stores, which leave it at the speed of memory.)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/max_pool/cpu_tile_grad.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "backends/cpu/dispatch.h"
#include "ops/max_pool/cpu_tile_search-inl.h"
#include "ops/max_pool/cpu_winners-inl.h"

#include <bit>

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

// The lanes whose byte is `value`.
template <class D, class V>
HWY_INLINE auto is_equal(D d, V bytes, int value) {
#if HWY_TARGET == HWY_AVX3
  // A comparison of 16 bytes makes the mask of 16 lanes, at a quarter of the cost.
  const hn::Rebind<std::uint8_t, D> narrow_d;
  return hn::Mask<D>{hn::Eq(bytes, hn::Set(narrow_d, static_cast<std::uint8_t>(value))).raw};
#else
  const hn::RebindToSigned<D> wide_d;
  return hn::RebindMask(d, hn::Eq(hn::PromoteTo(wide_d, bytes), hn::Set(wide_d, value)));
#endif
}

// sum + v where the mask is set.
template <class D, class M, class V>
HWY_INLINE V add_where([[maybe_unused]] D d, M mask, V sum, V v) {
#if HWY_TARGET == HWY_AVX3
  return V{_mm512_mask_add_ps(sum.raw, mask.raw, sum.raw, v.raw)};
#else
  return hn::Add(sum, hn::IfThenElseZero(mask, v));  // + 0 changes no sum that began at +0
#endif
}

// Keeps the compiler from loading v again for each of its uses, which costs two loads where it crosses a cache line.
template <class V>
HWY_INLINE V in_register(V v) {
#if HWY_TARGET == HWY_AVX3 && HWY_COMPILER_GCC
  __asm__("" : "+v"(v.raw));
#endif
  return v;
}

template <class T, int kWindow, int kStride>
class GradTiles {
  using D = TileLanes;
  using V = hn::Vec<D>;
  using Search = TileSearch<T, kWindow, kStride>;
  using Found = typename Search::Found;
  static constexpr int kHeight = kStride == 1 ? 4 : 2;                              // rows of dx in a tile
  static constexpr int kRows = kStride == 1 ? kWindow + kHeight - 1 : kWindow - 1;  // rows of windows for it
  static constexpr int kFirstShift = -((kWindow - 1) / kStride);                    // of windows along W
  static constexpr int kShifts = kStride == 1 ? kWindow : 3;

 public:
  struct Layout {
    std::int64_t ring = 1;   // rows of windows that cannot be read in place are kept: row o in slot o mod ring
    std::int64_t left = 0;   // lanes before the first window of a row
    std::int64_t right = 0;  // lanes from there on
    std::size_t outside, none, winners, dy, block, trash, bytes;
    std::int64_t block_lanes = 0;
    typename Search::Layout search{};

    explicit Layout(const PoolGradTiles& t) {
      const PoolAxis &h = t.g.axes[1], &w = t.g.axes[2];
      const std::int64_t sought = kHeight * h.dilation;  // at once
      const std::int64_t rows = ceil_div(t.rows_in_block, kStride) + kRows * h.dilation + sought;
      ring = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(rows)));
      left = -kFirstShift * w.dilation * t.unit;
      const std::int64_t columns = ceil_div(w.input, kStride) + w.start_padding / kStride + 2;
      right = std::max(columns, w.output) * t.unit + kSlack;
      ScratchLayout scratch;
      outside = scratch.reserve(left + right, 1);
      none = scratch.reserve(left + right, 1);
      winners = scratch.reserve(ring * (left + right), 1);
      dy = scratch.reserve(ring * (left + right), sizeof(T));
      block_lanes = t.rows_in_block * w.input * t.unit + kSlack;
      std::int64_t planes = 1;
      for (const PoolPlanes& group : t.groups) planes = std::max(planes, group.count);
      block = scratch.reserve(planes * block_lanes, sizeof(float));
      trash = scratch.reserve(w.input * t.unit + kSlack, sizeof(float));
      if (t.stored.kind == WinnersKind::none) search = {t, scratch};
      bytes = scratch.bytes();
    }
  };

  GradTiles(const PoolPart<PoolGradTiles>& part, const Layout& layout)
      : t_(*part.setup),
        layout_(layout),
        dy_data_(part.bindings->input<T>(1)),
        dx_data_(part.bindings->output<T>(0)),
        stored_(t_.g, t_.taps, t_.stored, t_.unit, part.bindings->inputs[2], part.wrong),
        search_(t_, t_.x, part.bindings->input<T>(0), layout.search, part.scratch),
        outside_(reinterpret_cast<std::uint8_t*>(part.scratch + layout.outside) + layout.left),
        none_(reinterpret_cast<std::uint8_t*>(part.scratch + layout.none) + layout.left),
        winners_(reinterpret_cast<std::uint8_t*>(part.scratch + layout.winners) + layout.left),
        dy_(reinterpret_cast<T*>(part.scratch + layout.dy) + layout.left),
        block_(reinterpret_cast<float*>(part.scratch + layout.block)),
        trash_(reinterpret_cast<T*>(part.scratch + layout.trash)) {
    std::memset(outside_ - layout.left, 0xff, static_cast<std::size_t>(layout.left + layout.right));
    std::memset(outside_, 0, static_cast<std::size_t>(axis_w().output * t_.unit));
    std::memset(none_ - layout.left, 0xff, static_cast<std::size_t>(layout.left + layout.right));
  }

  void run(std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const PoolTileItem item = tile_item(t_, i);
      if (i == first || item.row_block == 0) start(item);
      const std::int64_t row = t_.first_row + item.row_block * t_.rows_in_block;
      block_row_ = std::max<std::int64_t>(row, 0);
      const std::int64_t end = std::min(row + t_.rows_in_block, t_.rows);
      if (group_.window >= 0) read_rows(first_window(row + t_.rows_in_block) + (kRows - 1) * axis_h().dilation);
      if constexpr (kStride == 1) {
        const std::int64_t dilation = axis_h().dilation;
        for (std::int64_t r = row; r < end; r += kHeight * dilation) {
          for (std::int64_t j = 0; j < dilation; ++j) make_tile(r + j, end, dilation);
        }
      } else {
        for (std::int64_t r = row; r < end; r += kHeight) make_tile(r, end, 1);
      }
      if (way_ == Way::block) export_block(end);
    }
  }

 private:
  enum class Way { block, store, stream };

  [[nodiscard]] const PoolAxis& axis_h() const { return t_.g.axes[1]; }
  [[nodiscard]] const PoolAxis& axis_w() const { return t_.g.axes[2]; }

  void start(const PoolTileItem& item) {
    n_ = item.n;
    c_ = item.c;
    group_ = t_.groups[static_cast<std::size_t>(item.group)];
    const std::int64_t row = t_.first_row + item.row_block * t_.rows_in_block;
    next_ = std::max<std::int64_t>(first_window(row), 0);
    way_ = choose_way();
    const Dims& to = t_.dx.view.strides;
    dx_plane_ = dx_data_ + n_ * to[0] + c_ * to[1] + group_.first * to[2];
    // Rows that have elements before and behind them, where a vector may read beyond the row.
    const auto place = [&](const PoolTensor& tensor, Rows& rows) {
      const Dims& s = tensor.view.strides;
      const std::int64_t plane = n_ * s[0] + c_ * s[1] + std::max<std::int64_t>(group_.window, 0) * s[2];
      const std::int64_t room = tensor.end - plane - layout_.right;
      rows = {.plane = plane, .step = s[3], .first = 0, .end = 0};
      if (tensor.end < 0 || s[3] <= 0 || room < 0) return;
      rows.first = std::max<std::int64_t>(ceil_div(layout_.left - plane - tensor.room_before, s[3]), 0);
      rows.end = std::min(room / s[3] + 1, axis_h().output);
    };
    place(t_.dy, dy_rows_);
    if (stored_.are_bytes()) place(t_.stored.tensor, winners_rows_);
    first_in_place_ = std::max(dy_rows_.first, winners_rows_.first);
    end_in_place_ = stored_.are_bytes() && group_.window >= 0 ? std::min(dy_rows_.end, winners_rows_.end) : 0;
    if (t_.stored.kind == WinnersKind::none && group_.window >= 0) search_.start(n_, c_, group_.window);
  }

  // The first row of windows that a tile reads.
  [[nodiscard]] std::int64_t first_window(std::int64_t row) const {
    const PoolAxis& h = axis_h();
    if constexpr (kStride == 1) return row + h.start_padding - (kWindow - 1) * h.dilation;
    return (row + h.start_padding - (kWindow - 2)) / 2;
  }

  // Sums go to dx at once where its rows are whole vectors; past the cache, also aligned ones.
  [[nodiscard]] Way choose_way() const {
    const std::int64_t columns = axis_w().input * t_.unit;
    if (columns % lanes(D()) != 0) return Way::block;
    if (!t_.past_cache) return Way::store;
    const Dims& s = t_.dx.view.strides;
    const std::int64_t vector = lanes(D()) * static_cast<std::int64_t>(sizeof(T));
    const auto is_aligned = [&](int axis) { return t_.dx.view.sizes[axis] == 1 || s[axis] % lanes(D()) == 0; };
    const bool aligned = reinterpret_cast<std::uintptr_t>(dx_data_) % static_cast<std::uintptr_t>(vector) == 0 &&
                         is_aligned(0) && is_aligned(2) && is_aligned(3) && (t_.unit > 1 || is_aligned(1));
    return aligned && vector >= 16 ? Way::stream : Way::block;
  }

  // ---- Rows of windows

  struct Row {
    const std::uint8_t* winners;
    const T* dy;
  };

  // Rows of a plane of a tensor, of which [first, end) can be read in place, and beyond their ends.
  struct Rows {
    std::int64_t plane = 0, step = 0, first = 0, end = 0;
    [[nodiscard]] bool are_in_place(std::int64_t o) const { return o >= first && o < end; }
  };

  [[nodiscard]] std::int64_t ring_at(std::int64_t o) const {
    return (o & (layout_.ring - 1)) * (layout_.left + layout_.right);
  }

  // Row o from its first window on; where there is none, windows without winners.
  HWY_INLINE Row row_of(std::int64_t o) const {
    if (o >= first_in_place_ && o < end_in_place_) return row_in_place(o);
    if (o < 0 || o >= next_) return {none_, dy_};
    const std::int64_t at = ring_at(o);
    return {winners_ + at, dy_rows_.are_in_place(o) ? dy_data_ + dy_rows_.plane + o * dy_rows_.step : dy_ + at};
  }
  HWY_INLINE Row row_in_place(std::int64_t o) const {
    return {stored_.bytes() + winners_rows_.plane + o * winners_rows_.step,
            dy_data_ + dy_rows_.plane + o * dy_rows_.step};
  }

  // All the rows that a block needs, up to and without row `end`.
  HWY_NOINLINE void read_rows(std::int64_t end) {
    const std::int64_t n = axis_w().output * t_.unit;
    end = std::min(end, axis_h().output);
    while (next_ < end) {
      if (next_ >= first_in_place_ && next_ < end_in_place_) {
        const std::int64_t last = std::min(end, end_in_place_);
        const RowPlace place{n_, c_, group_.window, next_, 0, axis_w().output};
        const std::uint8_t* rows = stored_.bytes() + winners_rows_.plane + next_ * winners_rows_.step;
        stored_.check(place, last - next_, rows, winners_rows_.step);
        next_ = last;
        continue;
      }
      std::int64_t count = 1;
      if (t_.stored.kind == WinnersKind::none) {
        count = std::min(search_.rows_at_once(), axis_h().output - next_);
        search_.find(next_, count, [&](std::int64_t r) { return Found{winners_ + ring_at(next_ + r), nullptr}; });
      } else {
        stored_.read({n_, c_, group_.window, next_, 0, axis_w().output}, winners_ + ring_at(next_));
      }
      for (const std::int64_t last = next_ + count; next_ < last; ++next_) {
        if (dy_rows_.are_in_place(next_)) continue;
        std::memcpy(dy_ + ring_at(next_), dy_data_ + dy_rows_.plane + next_ * dy_rows_.step,
                    static_cast<std::size_t>(n) * sizeof(T));
      }
    }
  }

  // ---- Sums

  // The tap that row `out` of a tile is in its row `row` of windows; that element `out` of kStride elements is in the
  // window `shift` further on; -1: none.
  static constexpr int row_tap(int row, int out) {
    const int tap = kStride == 1 ? kWindow - 1 - (row - out) : kWindow - 2 + out - 2 * row;
    return tap >= 0 && tap < kWindow ? tap : -1;
  }
  template <int kPhase>
  static constexpr int column_tap(int shift, int out) {
    const int tap = kPhase + out - kStride * shift;
    return tap < kWindow ? tap : -1;
  }

  struct Sources {
    Row rows[kRows];
    const std::uint8_t* outside;  // of a row: 0 for a window, all ones elsewhere
    std::int64_t step;            // from a window to the next that reaches an element
    int tap;                      // of the first tap that the tile's plane has
  };

  // The tap that sum k of a tile, of row k / kStride and column k mod kStride, is in a window; -1: none.
  template <int kPhase>
  static constexpr int tap_of_sum(int row, int shift, int k) {
    const int row_number = row_tap(row, k / kStride), column_number = column_tap<kPhase>(shift, k % kStride);
    return k >= kHeight * kStride || row_number < 0 || column_number < 0 ? -1 : row_number * kWindow + column_number;
  }

  // Adds the windows to a tile's sums, in ascending order. (Four vectors: there are no arrays of scalable ones.)
  template <int kPhase, int kNext = 0>
  static HWY_INLINE void add_windows(const Sources& sources, std::int64_t i, V& a, V& b, V& c, V& e) {
    if constexpr (kNext < kRows * kShifts) {
      constexpr int kRow = kNext / kShifts;
      constexpr int kShift = kNext % kShifts + kFirstShift;
      constexpr auto tap = [](int k) { return tap_of_sum<kPhase>(kRow, kShift, k); };
      if constexpr (tap(0) >= 0 || tap(1) >= 0 || tap(2) >= 0 || tap(3) >= 0) {
        const D d;
        const std::int64_t at = i + kShift * sources.step;
        const hn::Rebind<std::uint8_t, D> bytes;
        const auto marks = hn::LoadU(bytes, sources.outside + at);
        const auto winner = hn::Or(hn::LoadU(bytes, sources.rows[kRow].winners + at), marks);
        const V dy = in_register(load(d, sources.rows[kRow].dy + at));
        if constexpr (tap(0) >= 0) a = add_where(d, is_equal(d, winner, sources.tap + tap(0)), a, dy);
        if constexpr (tap(1) >= 0) b = add_where(d, is_equal(d, winner, sources.tap + tap(1)), b, dy);
        if constexpr (tap(2) >= 0) c = add_where(d, is_equal(d, winner, sources.tap + tap(2)), c, dy);
        if constexpr (tap(3) >= 0) e = add_where(d, is_equal(d, winner, sources.tap + tap(3)), e, dy);
      }
      add_windows<kPhase, kNext + 1>(sources, i, a, b, c, e);
    }
  }

  // Where the rows of a tile go.
  struct Targets {
    T* dx[kHeight];
    float* block[kHeight];
    std::int64_t end, unit;  // of a row, in lanes; of a column
  };

  template <Way kWay>
  static HWY_INLINE void put(const Targets& targets, int out, std::int64_t at, V v) {
    const D d;
    if constexpr (kWay == Way::stream) {
      stream(d, v, targets.dx[out] + at);
    } else if constexpr (kWay == Way::store) {
      store(d, v, targets.dx[out] + at);
    } else {
      float* to = targets.block[out] + at;
      const std::int64_t rest = targets.end - at;
      if (rest >= lanes(d)) {
        hn::StoreU(v, d, to);
      } else if (rest > 0) {
        hn::BlendedStore(v, hn::FirstN(d, static_cast<std::size_t>(rest)), d, to);
      }
    }
  }

  // A vector of every row.
  template <Way kWay, bool kPlanar, int kPhase>
  static HWY_INLINE void put_rows(const Sources& sources, const Targets& targets, std::int64_t i, std::int64_t at) {
    const D d;
    V a = hn::Zero(d), b = hn::Zero(d), c = hn::Zero(d), e = hn::Zero(d);
    add_windows<kPhase>(sources, i, a, b, c, e);
    if constexpr (kStride == 2) {
      put_pairs<kWay, kPlanar>(targets, 0, at, a, b);
      put_pairs<kWay, kPlanar>(targets, 1, at, c, e);
    } else {
      put<kWay>(targets, 0, at, a);
      put<kWay>(targets, 1, at, b);
      put<kWay>(targets, 2, at, c);
      put<kWay>(targets, 3, at, e);
    }
  }

  // A vector of two elements each; for streams, which must be aligned, as two halves if need be.
  template <Way kWay, class VU>
  static HWY_INLINE void put_words(T* to, VU words) {
    const hn::RebindToUnsigned<D> u;
    auto* p = reinterpret_cast<std::uint32_t*>(to);
    if constexpr (kWay == Way::store) {
      hn::StoreU(words, u, p);
    } else if (reinterpret_cast<std::uintptr_t>(p) % (hn::Lanes(u) * sizeof(*p)) == 0) {
      hn::Stream(words, u, p);
    } else {
#if HWY_TARGET != HWY_SCALAR
      const hn::Half<decltype(u)> half;
      hn::Stream(hn::LowerHalf(half, words), half, p);
      hn::Stream(hn::UpperHalf(half, words), half, p + hn::Lanes(half));
#endif
    }
  }

  template <Way kWay, bool kPlanar>
  static HWY_INLINE void put_pairs(const Targets& targets, int out, std::int64_t at, V first, V second) {
    const D d;
    if constexpr (kPlanar && kWay != Way::block && std::is_same_v<T, bf16> && hn::MaxLanes(D()) > 1) {
      if (at + lanes(d) < targets.end) return put_words<kWay>(targets.dx[out] + at, interleaved_bf16(d, first, second));
    }
    if constexpr (kPlanar) {
      put<kWay>(targets, out, at, interleave_lower(d, first, second));
      if (at + lanes(d) < targets.end) put<kWay>(targets, out, at + lanes(d), interleave_upper(d, first, second));
    } else {
      put<kWay>(targets, out, at, first);
      if (at + targets.unit < targets.end) put<kWay>(targets, out, at + targets.unit, second);
    }
  }

  template <Way kWay, int kPhase>
  static HWY_NOINLINE void make_rows(const Sources& in, const Targets& to) {
    const D d;
    const Sources sources = in;
    const Targets targets = to;
    if (kStride == 1 || targets.unit == 1) {
      for (std::int64_t at = 0, i = 0; at < targets.end; at += kStride * lanes(d), i += lanes(d)) {
        put_rows<kWay, true, kPhase>(sources, targets, i, at);
      }
    } else {
      for (std::int64_t column = 0, i = 0; column < targets.end; column += 2 * targets.unit) {
        for (std::int64_t c = 0; c < targets.unit; c += lanes(d), i += lanes(d)) {
          put_rows<kWay, false, kPhase>(sources, targets, i, column + c);
        }
      }
    }
  }

  template <Way kWay>
  void make_rows(const Sources& sources, const Targets& targets) const {
    if constexpr (kWindow == 3 && kStride == 2) {
      if (axis_w().start_padding % 2 != 0) return make_rows<kWay, 1>(sources, targets);
    }
    make_rows<kWay, 0>(sources, targets);
  }

  HWY_INLINE void make_tile(std::int64_t row, std::int64_t end, std::int64_t dilation) {
    const std::int64_t first = first_window(row);
    const std::int64_t at = axis_w().start_padding / kStride * t_.unit;
    Sources sources{.rows = {}, .outside = outside_ + at, .step = axis_w().dilation * t_.unit, .tap = 0};
    if (first >= first_in_place_ && first + (kRows - 1) * dilation < end_in_place_) {
      Row windows = row_in_place(first);
      for (int r = 0; r < kRows; ++r) {
        sources.rows[r] = {windows.winners + at, windows.dy + at};
        windows.winners += dilation * winners_rows_.step;
        windows.dy += dilation * dy_rows_.step;
      }
    } else {
      for (int r = 0; r < kRows; ++r) {
        const Row windows = row_of(first + r * dilation);
        sources.rows[r] = {windows.winners + at, windows.dy + at};
      }
    }
    const Dims& s = t_.dx.view.strides;
    Targets targets{.dx = {}, .block = {}, .end = axis_w().input * t_.unit, .unit = t_.unit};
    for (std::int64_t plane = 0; plane < group_.count; ++plane) {
      sources.tap = static_cast<int>((group_.tap + plane) * kWindow * kWindow);
      for (int out = 0; out < kHeight; ++out) {
        const std::int64_t h = row + out * dilation;
        const bool is_there = h >= 0 && h < end;
        targets.dx[out] = is_there ? dx_plane_ + plane * s[2] + h * s[3] : trash_;
        targets.block[out] = is_there ? block_ + plane * layout_.block_lanes + (h - block_row_) * targets.end
                                      : reinterpret_cast<float*>(trash_);
      }
      if (way_ == Way::stream) {
        make_rows<Way::stream>(sources, targets);
      } else if (way_ == Way::store) {
        make_rows<Way::store>(sources, targets);
      } else {
        make_rows<Way::block>(sources, targets);
      }
    }
  }

  // Rows [block_row_, end) of every plane.
  void export_block(std::int64_t end) const {
    const Dims& s = t_.dx.view.strides;
    const std::int64_t n = axis_w().input * t_.unit;
    for (std::int64_t plane = 0; plane < group_.count; ++plane) {
      const float* from = block_ + plane * layout_.block_lanes;
      T* to = dx_plane_ + plane * s[2] + block_row_ * s[3];
      if (s[3] == n) {
        export_packed(from, to, (end - block_row_) * n, t_.past_cache);
      } else {
        for (std::int64_t h = block_row_; h < end; ++h, from += n, to += s[3]) {
          export_packed(from, to, n, t_.past_cache && is_long_run(n, sizeof(T)));
        }
      }
    }
  }

  const PoolGradTiles& t_;
  const Layout& layout_;
  const T* dy_data_;
  T* dx_data_;
  StoredWinners<std::uint8_t> stored_;
  Search search_;
  std::uint8_t *outside_, *none_, *winners_;
  T* dy_;
  float* block_;
  T* trash_;  // takes the rows of a tile that are not there
  Way way_ = Way::block;
  PoolPlanes group_{};
  std::int64_t n_ = 0, c_ = 0, next_ = 0, block_row_ = 0;
  T* dx_plane_ = nullptr;
  Rows dy_rows_{}, winners_rows_{};
  std::int64_t first_in_place_ = 0, end_in_place_ = 0;
};

std::size_t RunPoolGradTiles(const PoolPart<PoolGradTiles>& part) {
  std::size_t bytes = 0;
  visit_tiles(part.setup->shape, part.setup->dx.view.dtype, [&]<class T, int kWindow, int kStride>() {
    using Tiles = GradTiles<T, kWindow, kStride>;
    const typename Tiles::Layout layout(*part.setup);
    bytes = layout.bytes;
    if (part.scratch != nullptr) Tiles(part, layout).run(part.first, part.last);
  });
  return bytes;
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {

HWY_EXPORT(RunPoolGradTiles);

std::size_t run_tiles(const PoolPart<PoolGradTiles>& part) { return BP_DISPATCH(RunPoolGradTiles)(part); }

std::unique_ptr<Kernel> make_max_pool_grad_tiles(std::shared_ptr<const MaxPoolGradPlan> plan,
                                                 const Settings& settings) {
  PoolGradTiles tiles = make_tiles(*plan);
  return make_pool_kernel(std::move(plan), settings, std::move(tiles), run_tiles);
}

}  // namespace bp::cpu
#endif
