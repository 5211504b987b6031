// SPDX-License-Identifier: Apache-2.0
// The gradient of max pooling for windows known to the compiler.
//
// A tile is a few rows of dx that the same rows of windows reach. An element of dx is the sum over the windows that
// reach it, in ascending order, of dy where the winner is that element; which windows those are is known to the
// compiler.
//
// dy and stored winners are read where they lie, beyond the ends of their rows and planes too, where other rows stand:
// a window there has its winner somewhere else, since what it would have to be in its own row lies beyond the end of x.
// That holds for winners that are right; where one is not, dx is made anew from copies. (Copies, padded, are a trap:
// loads that cross two stores wait for both to leave the queue, and there they stand behind non-temporal stores, which
// leave it at the speed of memory.)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/max_pool/cpu_tile_grad.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "backends/cpu/dispatch.h"
#include "ops/max_pool/cpu_tile_search-inl.h"
#include "ops/max_pool/cpu_winners-inl.h"

#include <limits>

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

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
  using Search = TileSearch<T, kWindow, kStride, false>;
  using Found = typename Search::Found;
  static constexpr int kLanes = static_cast<int>(hn::MaxLanes(TileLanes()));
  static constexpr int kLeastLanes = std::min(kLanes, 4);                           // of vectors at the ends of rows
  static constexpr int kHeight = tile_height(kStride);                              // rows of dx in a tile
  static constexpr int kRows = kStride == 1 ? kWindow + kHeight - 1 : kWindow - 1;  // rows of windows for it
  static constexpr int kFirstShift = -((kWindow - 1) / kStride);                    // of windows along W
  static constexpr int kShifts = std::max(kWindow, 3);
  // x for the next search, while dx is written: where windows overlap, a tile is so much work that this gains nothing.
  static constexpr bool kAsksForX = kWindow == 2;
  static constexpr std::int64_t kAhead = 4096 / sizeof(T);  // elements of dx that are asked for before they are written
  static constexpr std::int64_t kWindowsAhead = 4096 / sizeof(T);  // before they are read; half, where rows are long

 public:
  struct Layout {
    std::int64_t left = 0;   // lanes before the first window of a row
    std::int64_t right = 0;  // lanes from there on
    std::int64_t pitch = 0;  // of a row in scratch memory: both
    std::size_t outside, winners, dy, block, trash, bytes;
    std::int64_t block_lanes = 0;
    typename Search::Layout search{};

    explicit Layout(const PoolGradTiles& t) {
      const PoolAxis &h = t.g.axes[1], &w = t.g.axes[2];
      const std::int64_t rows = windows_for(t, t.rows_in_block) + kHeight * h.dilation;  // which are sought at once
      left = -kFirstShift * w.dilation * t.unit;
      const std::int64_t columns = ceil_div(w.input, kStride) + w.start_padding / kStride + 2;
      right = std::max(columns, w.output) * t.unit + kSlack;
      pitch = left + right;
      ScratchLayout scratch;
      outside = scratch.reserve(pitch, 1);
      winners = scratch.reserve(rows * pitch, 1);
      dy = scratch.reserve(rows * pitch, sizeof(T));
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
        around_(part.around),
        dy_data_(part.bindings->input<T>(1)),
        dx_data_(part.bindings->output<T>(0)),
        stored_(t_.g, t_.taps, t_.stored, t_.unit, part.bindings->inputs[2], part.wrong),
        search_(t_, t_.x, part.bindings->input<T>(0), layout.search, part.scratch),
        outside_(reinterpret_cast<std::uint8_t*>(part.scratch + layout.outside) + layout.left),
        winners_(reinterpret_cast<std::uint8_t*>(part.scratch + layout.winners)),
        dy_(reinterpret_cast<T*>(part.scratch + layout.dy)),
        block_(reinterpret_cast<float*>(part.scratch + layout.block)),
        trash_(reinterpret_cast<T*>(part.scratch + layout.trash)) {
    std::memset(outside_ - layout.left, kNone, static_cast<std::size_t>(layout.pitch));
    std::memset(outside_, 0, static_cast<std::size_t>(axis_w().output * t_.unit));
    std::memset(winners_, kNone, layout.dy - layout.winners);
    if (kAsksForX && t_.stored.kind == WinnersKind::none && t_.unit == 1 && t_.past_cache &&
        t_.x.view.strides == t_.dx.view.strides) {
      const T* next = part.bindings->input<T>(0) + t_.rows_in_block * t_.x.view.strides[3];
      next_x_ = reinterpret_cast<const std::byte*>(next) - reinterpret_cast<const std::byte*>(dx_data_);
    }
    reads_in_place_ = stored_.are_bytes() && !part.expects_wrong;
    if (!reads_in_place_) return;
    const PoolAxis &h = axis_h(), &w = axis_w();
    rows_end_beyond_x_ = t_.stored.tensor.view.strides[3] == w.output * t_.unit && kStride * w.output >= w.input;
    planes_end_beyond_x_ = rows_end_beyond_x_ && kStride * h.output >= h.input;
  }

  void run(std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const PoolTileItem item = tile_item(t_, i);
      if (i == first || item.row_block == 0) start(item);
      const std::int64_t row = t_.first_row + item.row_block * t_.rows_in_block;
      block_row_ = std::max<std::int64_t>(row, 0);
      const std::int64_t end = std::min(row + t_.rows_in_block, t_.rows);
      const std::int64_t dilation = kStride == 1 ? axis_h().dilation : 1;
      const std::int64_t step = kHeight * dilation;
      // Winners are read in place a block at a time, or, at the edges of a plane, a few rows.
      const std::int64_t rows = ceil_div(end - row, step) * step;
      if (around_ != nullptr) around_->before(first_window(row) + windows_for(t_, rows));
      const bool by_tiles = reads_in_place_ && !is_in_place(first_window(row), windows_for(t_, rows));
      const std::int64_t together = by_tiles ? step : rows;
      for (std::int64_t from = row; from < end; from += together) {
        const Windows windows = windows_of(first_window(from), windows_for(t_, together));
        make_tiles(windows, from, together, end, dilation);
      }
      if (way_ == Way::block) export_block(end);
      if (around_ != nullptr) around_->after(end);
    }
  }

 private:
  // known_later: with stride 1, where a tile is so much work that to ask costs nothing, and so much to compile.
  enum class Way { block, store, stream, known_later };
  static constexpr std::uint8_t kNone = StoredWinners<std::uint8_t>::kNone;

  [[nodiscard]] const PoolAxis& axis_h() const { return t_.g.axes[1]; }
  [[nodiscard]] const PoolAxis& axis_w() const { return t_.g.axes[2]; }

  void start(const PoolTileItem& item) {
    n_ = item.n;
    c_ = item.c;
    group_ = t_.groups[static_cast<std::size_t>(item.group)];
    checked_ = 0;
    kept_end_ = std::numeric_limits<std::int64_t>::min();
    way_ = choose_way();
    const Dims& to = t_.dx.view.strides;
    dx_plane_ = dx_data_ + n_ * to[0] + c_ * to[1] + group_.first * to[2];
    if (t_.stored.kind == WinnersKind::none && group_.window >= 0) search_.start(n_, c_, group_.window);
  }

  // The first row of windows that a tile reads.
  [[nodiscard]] std::int64_t first_window(std::int64_t row) const {
    const PoolAxis& h = axis_h();
    if constexpr (kStride == 1) return row + h.start_padding - (kWindow - 1) * h.dilation;
    return (row + h.start_padding - (kWindow - 2)) / 2;
  }
  // How many rows of windows the tiles of so many rows of dx read.
  static std::int64_t windows_for(const PoolGradTiles& t, std::int64_t rows) {
    if constexpr (kStride == 1) return rows + (kWindow - 1) * t.g.axes[1].dilation;
    return rows / 2 + kRows - 1;
  }

  // Sums go to dx at once where its rows are whole vectors; past the cache, also aligned ones, that are streamed: over
  // channels if they are long, or lines fill so slowly that they are written before they are full. Inside the cache,
  // with stride 1, vectors may overlap.
  [[nodiscard]] Way choose_way() const {
    const std::int64_t columns = axis_w().input * t_.unit;
    const bool whole = columns % lanes(TileLanes()) == 0;
    const std::int64_t vector = lanes(TileLanes()) * static_cast<std::int64_t>(sizeof(T));
    if (!t_.past_cache || vector < (t_.unit > 1 ? 2 * kLeastStream : kLeastStream))
      return whole || (kStride == 1 && columns >= kLeastLanes) ? Way::store : Way::block;
    const Dims& s = t_.dx.view.strides;
    const auto is_aligned = [&](int axis) { return t_.dx.view.sizes[axis] == 1 || s[axis] % lanes(TileLanes()) == 0; };
    const bool aligned = reinterpret_cast<std::uintptr_t>(dx_data_) % static_cast<std::uintptr_t>(vector) == 0 &&
                         is_aligned(0) && is_aligned(2) && is_aligned(3) && (t_.unit > 1 || is_aligned(1));
    return whole && aligned ? Way::stream : Way::block;
  }

  // ---- Rows of windows

  // Rows of windows at regular distances, from the first window of row `first` on.
  struct Windows {
    std::int64_t first = 0;
    const std::uint8_t* winners = nullptr;
    const T* dy = nullptr;
    std::int64_t winners_step = 0, dy_step = 0;
    bool has_others = false;  // beyond the ends of rows and planes stand winners that may be taken for theirs
  };

  // Where the plane begins in a tensor; and whether `count` rows from row `first` on may be read there, rows beyond the
  // plane and the lanes beyond the ends of rows included.
  [[nodiscard]] std::int64_t plane_of(const PoolTensor& tensor) const {
    const Dims& s = tensor.view.strides;
    return n_ * s[0] + c_ * s[1] + group_.window * s[2];
  }
  [[nodiscard]] bool is_readable(const PoolTensor& tensor, std::int64_t first, std::int64_t count) const {
    const std::int64_t step = tensor.view.strides[3], row = plane_of(tensor) + first * step;
    return tensor.end >= 0 && step > 0 && row - layout_.left >= -tensor.room_before &&
           row + (count - 1) * step + layout_.right <= tensor.end;
  }

  // Whether that may be done with the winners.
  [[nodiscard]] bool is_in_place(std::int64_t first, std::int64_t count) const {
    return group_.window >= 0 && is_readable(t_.stored.tensor, first, count);
  }
  // Whether what stands beyond the ends of such rows may be taken for their windows: then it is marked.
  [[nodiscard]] bool has_others(std::int64_t first, std::int64_t count) const {
    return !planes_end_beyond_x_ && !(rows_end_beyond_x_ && first >= 0 && first + count <= axis_h().output);
  }

  // `count` rows of windows from row `first` on, checked.
  HWY_NOINLINE Windows windows_of(std::int64_t first, std::int64_t count) {
    Windows windows{.first = first,
                    .winners = winners_ + layout_.left,
                    .dy = dy_ + layout_.left,
                    .winners_step = layout_.pitch,
                    .dy_step = layout_.pitch};
    if (group_.window < 0) {
      std::memset(winners_, kNone, static_cast<std::size_t>(count * layout_.pitch));
      kept_end_ = std::numeric_limits<std::int64_t>::min();
      return windows;
    }
    const std::int64_t end = std::min(first + count, axis_h().output);
    if (const PoolTensor& stored = t_.stored.tensor; reads_in_place_ && is_in_place(first, count)) {
      windows.winners_step = stored.view.strides[3];
      windows.winners = stored_.bytes() + plane_of(stored) + first * windows.winners_step;
      windows.has_others = has_others(first, count);
      if (checked_ = std::max(checked_, first); checked_ < end) {
        stored_.check({n_, c_, group_.window, checked_, 0, axis_w().output}, end - checked_,
                      windows.winners + (checked_ - first) * windows.winners_step, windows.winners_step);
        checked_ = end;
      }
    } else {
      keep_winners(first, first + count);
    }
    const std::int64_t dy_step = t_.dy.view.strides[3];
    const T* dy = dy_data_ + plane_of(t_.dy) + first * dy_step;
    if (is_readable(t_.dy, first, count)) {
      windows.dy = dy;
      windows.dy_step = dy_step;
    } else {
      for (std::int64_t o = std::max<std::int64_t>(first, 0); o < end; ++o) {
        std::memcpy(dy_ + layout_.left + (o - first) * layout_.pitch, dy + (o - first) * dy_step,
                    static_cast<std::size_t>(axis_w().output * t_.unit) * sizeof(T));
      }
    }
    return windows;
  }

  // Rows [first, end) of winners in scratch memory, between windows without winners; rows that the block before had,
  // too, stay.
  void keep_winners(std::int64_t first, std::int64_t end) {
    const auto kept = [&](std::int64_t o) { return winners_ + (o - first) * layout_.pitch; };
    const auto bytes = [&](std::int64_t rows) { return static_cast<std::size_t>(rows * layout_.pitch); };
    const std::int64_t outputs = axis_h().output;
    if (kept_end_ > first) {
      std::memmove(winners_, winners_ + (first - kept_first_) * layout_.pitch, bytes(kept_end_ - first));
    } else {
      kept_end_ = std::max<std::int64_t>(first, 0);
      std::memset(winners_, kNone, bytes(std::min(kept_end_, end) - first));
    }
    kept_first_ = first;
    while (kept_end_ < std::min(end, outputs)) {
      std::int64_t count = 1;
      if (t_.stored.kind == WinnersKind::none) {
        count = std::min(search_.rows_at_once(), outputs - kept_end_);
        search_.find(kept_end_, count, [&](std::int64_t r) {
          return Found{kept(kept_end_ + r) + layout_.left, nullptr};
        });
      } else {
        std::uint8_t* row = kept(kept_end_);
        stored_.read({n_, c_, group_.window, kept_end_, 0, axis_w().output}, row + layout_.left);
        std::memset(row + layout_.left + axis_w().output * t_.unit, kNone,
                    static_cast<std::size_t>(layout_.right - axis_w().output * t_.unit));
      }
      kept_end_ += count;
    }
    if (end > kept_end_) std::memset(kept(kept_end_), kNone, bytes(end - kept_end_));
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
    const std::uint8_t* winners;  // of a tile's first row of windows
    const T* dy;
    std::int64_t winners_row, dy_row;    // from a row to the next
    std::int64_t winners_step, dy_step;  // from a row to the next that the tile reads
    std::int64_t step;                   // from a window to the next that reaches an element
    int tap;                             // of the first tap that the tile's plane has
    std::int64_t ahead;                  // windows that are asked for so far ahead; 0: none
  };

  // What may not be taken for a window.
  struct Marks {
    const std::uint8_t* outside;    // of a row: 0 for a window, all ones elsewhere
    std::int64_t clear, clear_end;  // vectors of windows from there on, and up to there, reach none of those
    unsigned rows;                  // bit k: row k that the tile reads is one of the plane
  };
  static constexpr unsigned kAllRows = (1u << kRows) - 1;

  // The tap that sum k of a tile, of row k / kStride and column k mod kStride, is in a window; -1: none.
  template <int kPhase>
  static constexpr int tap_of_sum(int row, int shift, int k) {
    const int row_number = row_tap(row, k / kStride), column_number = column_tap<kPhase>(shift, k % kStride);
    return k >= kHeight * kStride || row_number < 0 || column_number < 0 ? -1 : row_number * kWindow + column_number;
  }

  // Adds the windows of a row from kShift on to a tile's sums, in ascending order. (Four vectors: there are no arrays
  // of scalable ones.)
  template <int kPhase, bool kMarks, int kRow, int kShift, class D, class V>
  static HWY_INLINE void add_row(D d, const Sources& sources, const std::uint8_t* winners, const T* dy,
                                 const std::uint8_t* outside, V& a, V& b, V& c, V& e) {
    if constexpr (kShift < kShifts + kFirstShift) {
      constexpr auto tap = [](int k) { return tap_of_sum<kPhase>(kRow, kShift, k); };
      if constexpr (tap(0) >= 0 || tap(1) >= 0 || tap(2) >= 0 || tap(3) >= 0) {
        const std::int64_t at = kShift * sources.step;
        const hn::Rebind<std::uint8_t, D> bytes;
        auto winner = hn::LoadU(bytes, winners + at);
        if constexpr (kMarks) winner = hn::Or(winner, hn::LoadU(bytes, outside + at));
        const V v = in_register(load(d, dy + at));
        if constexpr (tap(0) >= 0) a = add_if(byte_is(d, winner, sources.tap + tap(0)), a, v);
        if constexpr (tap(1) >= 0) b = add_if(byte_is(d, winner, sources.tap + tap(1)), b, v);
        if constexpr (tap(2) >= 0) c = add_if(byte_is(d, winner, sources.tap + tap(2)), c, v);
        if constexpr (tap(3) >= 0) e = add_if(byte_is(d, winner, sources.tap + tap(3)), e, v);
      }
      add_row<kPhase, kMarks, kRow, kShift + 1>(d, sources, winners, dy, outside, a, b, c, e);
    }
  }

  // All rows. kMarks: those that are not there, and windows beyond the ends of rows, are left out.
  template <int kPhase, bool kMarks, int kRow = 0, class D, class V>
  static HWY_INLINE void add_windows(D d, const Sources& sources, const std::uint8_t* winners, const T* dy,
                                     const std::uint8_t* outside, unsigned rows, V& a, V& b, V& c, V& e) {
    if constexpr (kRow < kRows) {
      if constexpr (kRow > 0) {
        winners = step_on(winners, sources.winners_step);
        dy = step_on(dy, sources.dy_step);
      }
      if (!kMarks || (rows >> kRow & 1) != 0) {
        add_row<kPhase, kMarks, kRow, kFirstShift>(d, sources, winners, dy, outside, a, b, c, e);
      }
      add_windows<kPhase, kMarks, kRow + 1>(d, sources, winners, dy, outside, rows, a, b, c, e);
    }
  }

  // Where the rows of a tile go.
  struct Targets {
    T* dx[kHeight];
    float* block[kHeight];
    std::int64_t end, unit;  // of a row, in lanes; of a column
    Way way;
    std::ptrdiff_t next_x;  // see Rows
  };

  // What the search reads next comes to the second cache while dx goes to memory.
  static HWY_INLINE void ask_for_x(const Targets& targets, std::int64_t at, std::int64_t count) {
    if (targets.next_x == 0) return;
#pragma GCC unroll 4
    for (int out = 0; out < kHeight; ++out) {
      const auto* x = reinterpret_cast<const std::byte*>(targets.dx[out] + at) + targets.next_x;
      for (std::int64_t i = 0; i < count * static_cast<std::int64_t>(sizeof(T)); i += 64)
        __builtin_prefetch(x + i, 0, 2);
    }
  }

  template <Way kWay, class D, class V>
  static HWY_INLINE void put(D d, const Targets& targets, int out, std::int64_t at, V v) {
    if constexpr (kWay == Way::known_later) {
      if (targets.way == Way::block) return put<Way::block>(d, targets, out, at, v);
      // Only whole vectors are streamed.
      if constexpr (hn::MaxLanes(D()) == kLanes && kLanes * sizeof(T) >= kLeastStream) {
        if (targets.way == Way::stream) return put<Way::stream>(d, targets, out, at, v);
      }
      put<Way::store>(d, targets, out, at, v);
    } else if constexpr (kWay == Way::stream) {
      stream(d, v, targets.dx[out] + at);
    } else if constexpr (kWay == Way::store) {
      store(d, v, targets.dx[out] + at);
      __builtin_prefetch(targets.dx[out] + at + kAhead, 1, 2);
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
  template <Way kWay, bool kPlanar, bool kMarks, int kPhase, class D>
  static HWY_INLINE void put_rows(D d, const Sources& sources, const Marks& marks, const Targets& targets,
                                  std::int64_t i, std::int64_t at) {
    using V = hn::Vec<D>;
    V a = hn::Zero(d), b = hn::Zero(d), c = hn::Zero(d), e = hn::Zero(d);
    add_windows<kPhase, kMarks>(d, sources, sources.winners + i, sources.dy + i, kMarks ? marks.outside + i : nullptr,
                                kMarks ? marks.rows : kAllRows, a, b, c, e);
    if constexpr (kStride == 2) {
      put_pairs<kWay, kPlanar>(d, targets, 0, at, a, b);
      put_pairs<kWay, kPlanar>(d, targets, 1, at, c, e);
    } else {
      put<kWay>(d, targets, 0, at, a);
      put<kWay>(d, targets, 1, at, b);
      put<kWay>(d, targets, 2, at, c);
      put<kWay>(d, targets, 3, at, e);
    }
  }

  // A vector of two elements each; for streams, which must be aligned, as two halves if need be.
  template <Way kWay, class VU>
  static HWY_INLINE void put_words(T* to, VU words) {
    const hn::RebindToUnsigned<TileLanes> u;
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

  template <Way kWay, bool kPlanar, class D, class V>
  static HWY_INLINE void put_pairs(D d, const Targets& targets, int out, std::int64_t at, V first, V second) {
    if constexpr (kPlanar && kWay != Way::block && std::is_same_v<T, bf16> && hn::MaxLanes(D()) > 1) {
      if (at + lanes(d) < targets.end)
        return put_words<kWay>(targets.dx[out] + at, interleaved<bf16>(d, first, second));
    }
    if constexpr (kPlanar) {
      put<kWay>(d, targets, out, at, interleave_lower(d, first, second));
      if (at + lanes(d) < targets.end) put<kWay>(d, targets, out, at + lanes(d), interleave_upper(d, first, second));
    } else {
      put<kWay>(d, targets, out, at, first);
      if (at + targets.unit < targets.end) put<kWay>(d, targets, out, at + targets.unit, second);
    }
  }

  // Past the cache, windows that are read further on: of so many rows side by side the processor does not see what
  // comes next. (Half types are half the bytes, and not faster for it.)
  static HWY_INLINE void ask_for_windows(const Sources& sources, std::int64_t i) {
    constexpr int kFirst = kRows - kHeight;
    constexpr std::int64_t kLine = 64, kElements = kLine / sizeof(T);
    if (!std::is_same_v<T, float> || sources.ahead == 0) return;
    if (i % kElements == 0) {
#pragma GCC unroll 4
      for (int row = kFirst; row < kRows; ++row)
        __builtin_prefetch(sources.dy + row * sources.dy_step + i + sources.ahead);
    }
    if (i % kLine == 0) {
#pragma GCC unroll 4
      for (int row = kFirst; row < kRows; ++row)
        __builtin_prefetch(sources.winners + row * sources.winners_step + i + sources.ahead);
    }
  }

  // With stride 1, a row from element i on. What is left behind whole vectors is taken by one that overlaps the last,
  // or, if half as many lanes are enough, by those.
  template <bool kMarks, int kMostLanes>
  static HWY_INLINE void make_run(const Sources& sources, const Marks& marks, const Targets& targets, std::int64_t i) {
    const hn::CappedTag<float, kMostLanes> d;
    const std::int64_t whole = (targets.end - i) / lanes(d) * lanes(d), rest = targets.end - i - whole;
    const bool overlaps = kMostLanes == kLeastLanes || (targets.end >= lanes(d) && 2 * rest > lanes(d));
    const std::int64_t end = overlaps ? targets.end : i + whole;
    for (; i < end; i += lanes(d)) {
      const std::int64_t at = std::max<std::int64_t>(std::min(i, targets.end - lanes(d)), 0);
      ask_for_windows(sources, i);
      if constexpr (kMarks && kMostLanes == kLanes) {
        if (marks.rows == kAllRows && at >= marks.clear && at + lanes(d) <= marks.clear_end) {
          put_rows<Way::known_later, true, false, 0>(d, sources, marks, targets, at, at);
          continue;
        }
      }
      put_rows<Way::known_later, true, kMarks, 0>(d, sources, marks, targets, at, at);
    }
    if constexpr (kMostLanes > kLeastLanes) {
      if (end < targets.end) make_run<kMarks, kMostLanes / 2>(sources, marks, targets, end);
    }
  }

  // `rows` rows of one plane of dx from row `row` on, as a number of tiles. Rows before 0 and from `end` on are not
  // there.
  struct Rows {
    Sources sources;  // of the first tile
    Marks marks;
    std::int64_t row, rows, end, dilation;
    std::int64_t window, windows;  // the first tile's first row of windows; how many there are in the plane
    T* dx;                         // and how far its rows, and those of a block, are apart
    float* block;                  // from row `row` on
    std::int64_t dx_step, block_step, unit;
    T* trash;
    Way way;
    std::ptrdiff_t next_x;  // bytes from an element of dx to that of x a block further on; 0: do not ask for it
  };

  // Which rows of windows exist that the tile of row `first` reads.
  static HWY_INLINE unsigned rows_there(const Rows& rows, std::int64_t first) {
    unsigned there = 0;
    for (int k = 0; k < kRows; ++k) {
      const std::int64_t o = rows.window + first / kStride + k * rows.dilation;
      there |= (o >= 0 && o < rows.windows ? 1u : 0u) << k;
    }
    return there;
  }

  template <Way kWay, bool kMarks, int kPhase>
  static HWY_NOINLINE void make_rows(const Rows& in) {
    const Rows rows = in;
    for (std::int64_t r = 0; r < rows.rows; r += kHeight * rows.dilation) {
      for (std::int64_t first = r; first < r + rows.dilation; ++first) {
        Sources sources = rows.sources;
        sources.winners += first / kStride * rows.sources.winners_row;
        sources.dy += first / kStride * rows.sources.dy_row;
        const Marks marks{rows.marks.outside, rows.marks.clear, rows.marks.clear_end,
                          kMarks ? rows_there(rows, first) : kAllRows};
        Targets targets{
            .dx = {}, .block = {}, .end = rows.block_step, .unit = rows.unit, .way = rows.way, .next_x = rows.next_x};
        for (int out = 0; out < kHeight; ++out) {
          const std::int64_t from = first + out * rows.dilation, h = rows.row + from;
          const bool is_there = h >= 0 && h < rows.end;
          targets.dx[out] = is_there ? rows.dx + h * rows.dx_step : rows.trash;
          targets.block[out] = is_there ? rows.block + from * rows.block_step : reinterpret_cast<float*>(rows.trash);
        }
        make_tile<kWay, kMarks, kPhase>(sources, marks, targets);
      }
    }
  }

  // With stride 2: those of the windows from lane i on. Only where these reach beyond the ends of rows, they are
  // marked.
  template <Way kWay, bool kPlanar, bool kMarks, int kPhase>
  static HWY_INLINE void put_pair_of_vectors(const Sources& sources, const Marks& marks, const Targets& targets,
                                             std::int64_t i, std::int64_t at) {
    const TileLanes d;
    if constexpr (kMarks) {
      if (marks.rows != kAllRows || i < marks.clear || i + lanes(d) > marks.clear_end)
        return put_rows<kWay, kPlanar, true, kPhase>(d, sources, marks, targets, i, at);
    }
    put_rows<kWay, kPlanar, false, kPhase>(d, sources, marks, targets, i, at);
  }

  template <Way kWay, bool kMarks, int kPhase>
  static HWY_INLINE void make_tile(const Sources& sources, const Marks& marks, const Targets& targets) {
    const TileLanes d;
    if constexpr (kStride == 1) {
      make_run<kMarks, kLanes>(sources, marks, targets, 0);
    } else if (targets.unit == 1) {
      for (std::int64_t at = 0, i = 0; at < targets.end; at += 2 * lanes(d), i += lanes(d)) {
        if constexpr (kAsksForX) ask_for_x(targets, at, 2 * lanes(d));
        put_pair_of_vectors<kWay, true, kMarks, kPhase>(sources, marks, targets, i, at);
      }
    } else {
      for (std::int64_t column = 0, i = 0; column < targets.end; column += 2 * targets.unit) {
        for (std::int64_t c = 0; c < targets.unit; c += lanes(d), i += lanes(d)) {
          put_pair_of_vectors<kWay, false, kMarks, kPhase>(sources, marks, targets, i, column + c);
        }
      }
    }
  }

  template <Way kWay>
  void make_rows(const Rows& rows, bool has_others) const {
    if constexpr (kWindow == 3 && kStride == 2) {
      if (axis_w().start_padding % 2 != 0) return make_rows<kWay, 1>(rows, has_others);
    }
    make_rows<kWay, 0>(rows, has_others);
  }
  template <Way kWay, int kPhase>
  void make_rows(const Rows& rows, bool has_others) const {
    if (has_others) return make_rows<kWay, true, kPhase>(rows);
    make_rows<kWay, false, kPhase>(rows);
  }

  // Vectors of windows, as lanes of a row, that with their shifts stay within it.
  [[nodiscard]] std::int64_t clear_begin() const { return -kFirstShift * axis_w().dilation * t_.unit; }
  [[nodiscard]] std::int64_t clear_end() const {
    constexpr std::int64_t kLastShift = kStride == 1 ? 0 : kFirstShift + kShifts - 1;
    return (axis_w().output - kLastShift) * t_.unit;
  }

  // Rows [row, row + count) of every plane.
  void make_tiles(const Windows& windows, std::int64_t row, std::int64_t count, std::int64_t end,
                  std::int64_t dilation) {
    const std::int64_t at = axis_w().start_padding / kStride * t_.unit, width = axis_w().input * t_.unit;
    const Dims& s = t_.dx.view.strides;
    Rows rows{
        .sources = {.winners = windows.winners + at,
                    .dy = windows.dy + at,
                    .winners_row = windows.winners_step,
                    .dy_row = windows.dy_step,
                    .winners_step = dilation * windows.winners_step,
                    .dy_step = dilation * windows.dy_step,
                    .step = axis_w().dilation * t_.unit,
                    .tap = 0,
                    .ahead = t_.unit == 1    ? kWindowsAhead
                             : t_.past_cache ? kWindowsAhead / 2
                                             : 0},
        .marks = {.outside = outside_ + at, .clear = clear_begin() - at, .clear_end = clear_end() - at, .rows = 0},
        .row = row,
        .rows = count,
        .end = end,
        .dilation = dilation,
        .window = windows.first,
        .windows = axis_h().output,
        .dx = nullptr,
        .block = nullptr,
        .dx_step = s[3],
        .block_step = width,
        .unit = t_.unit,
        .trash = trash_,
        .way = way_,
        .next_x = next_x_};
    for (std::int64_t plane = 0; plane < group_.count; ++plane) {
      rows.sources.tap = static_cast<int>((group_.tap + plane) * kWindow * kWindow);
      rows.dx = dx_plane_ + plane * s[2];
      rows.block = block_ + plane * layout_.block_lanes + (row - block_row_) * width;
      if constexpr (kStride == 1) {
        make_rows<Way::known_later>(rows, windows.has_others);
      } else if (way_ == Way::stream) {
        make_rows<Way::stream>(rows, windows.has_others);
      } else if (way_ == Way::store) {
        make_rows<Way::store>(rows, windows.has_others);
      } else {
        make_rows<Way::block>(rows, windows.has_others);
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
  AroundItems* around_;
  const T* dy_data_;
  T* dx_data_;
  StoredWinners<std::uint8_t> stored_;
  Search search_;
  std::uint8_t *outside_, *winners_;
  T* dy_;
  float* block_;
  T* trash_;                                                      // takes the rows of a tile that are not there
  bool reads_in_place_ = false;                                   // stored winners
  bool rows_end_beyond_x_ = false, planes_end_beyond_x_ = false;  // what stands behind them is nobody's winner there
  Way way_ = Way::block;
  PoolPlanes group_{};
  std::int64_t n_ = 0, c_ = 0, block_row_ = 0;
  std::ptrdiff_t next_x_ = 0;
  T* dx_plane_ = nullptr;
  std::int64_t checked_ = 0;                    // rows of stored winners that are read in place, up to this one
  std::int64_t kept_first_ = 0, kept_end_ = 0;  // rows of winners that stand in scratch memory
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

std::size_t run_tiles(const PoolPart<PoolGradTiles>& part) {
  return part.setup->offers ? run_offers(part) : BP_DISPATCH(RunPoolGradTiles)(part);
}

std::unique_ptr<Kernel> make_max_pool_grad_tiles(std::shared_ptr<const MaxPoolGradPlan> plan,
                                                 const Settings& settings) {
  const bool past_cache = is_past_cache(plan->bytes());
  return make_max_pool_grad_tiles(std::move(plan), settings, past_cache);
}
std::unique_ptr<Kernel> make_max_pool_grad_tiles(std::shared_ptr<const MaxPoolGradPlan> plan, const Settings& settings,
                                                 bool past_cache) {
  PoolGradTiles tiles = make_tiles(*plan, past_cache);
  return make_pool_kernel(std::move(plan), settings, std::move(tiles), run_tiles);
}

}  // namespace bp::cpu
#endif
