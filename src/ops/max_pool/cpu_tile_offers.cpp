// SPDX-License-Identifier: Apache-2.0
// The gradient of max pooling where each window offers its dy to the sums of all elements that it reaches, instead of
// each element asking all windows.
//
// For 5x5 windows of stride 1 over channels that are innermost. A walk along a row of windows keeps the 25 sums that
// the window at hand reaches in registers: a column of them enters with every window, and one leaves. The winner's row
// and column are compared apart: dy stays in the lanes of a column, five times, and each of these is added to five
// sums, in the lanes of their rows. That is 10 comparisons and 25 additions for a window, where asking takes 25 of
// both, and dy is widened once. It needs masks and more than 25 registers: AVX-512 has both.
//
// Rows of windows come in ascending order, and so do the windows of a row: the contract's order. Sums of rows wait in a
// ring of five rows. A winner that is wrong is seen on the way; a sum that it would reach stands beyond the columns or
// rows that there are.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/max_pool/cpu_tile_offers.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "backends/cpu/dispatch.h"
#include "ops/max_pool/cpu_tile_search-inl.h"
#include "ops/max_pool/cpu_winners-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3

template <class T>
class OfferTiles {
  static constexpr int kWindow = 5;
  using Search = TileSearch<T, kWindow, 1, false>;
  using D = TileLanes;
  using V = hn::Vec<D>;
  static constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
  static constexpr int kMostPixel = static_cast<int>(kMostOffered);

 public:
  struct Layout {
    std::int64_t row = 0;    // winners of an item's row of windows: all of them, side by side
    std::int64_t width = 0;  // of a row of sums: columns of x, padding and all that windows reach
    std::size_t sums, winners, rows, columns, numbers, bytes;
    typename Search::Layout search{};

    explicit Layout(const PoolGradTiles& t) {
      const PoolAxis& w = t.g.axes[2];
      row = w.output * t.pixel;
      width = std::max(w.output + kWindow - 1, w.start_padding + w.input);
      const bool seeks = t.stored.kind == WinnersKind::none;
      ScratchLayout scratch;
      sums = scratch.reserve((kWindow + 1) * width * t.pixel, sizeof(float));
      winners = scratch.reserve((seeks ? tile_height(1) : 1) * row + kSlack, 1);
      rows = scratch.reserve(row + kSlack, 1);
      columns = scratch.reserve(row + kSlack, 1);
      numbers = scratch.reserve(kWindow * kLanes, 1);
      if (seeks) search = {t, scratch};
      bytes = scratch.bytes();
    }
  };

  OfferTiles(const PoolPart<PoolGradTiles>& part, const Layout& layout)
      : t_(*part.setup),
        layout_(layout),
        around_(part.around),
        wrong_(part.wrong),
        dy_data_(part.bindings->input<T>(1)),
        dx_data_(part.bindings->output<T>(0)),
        stored_(t_.g, t_.taps, t_.stored, t_.pixel, part.bindings->inputs[2], part.wrong),
        search_(t_, t_.x, part.bindings->input<T>(0), layout.search, part.scratch),
        sums_(reinterpret_cast<float*>(part.scratch + layout.sums)),
        winners_(reinterpret_cast<std::uint8_t*>(part.scratch + layout.winners)),
        rows_(reinterpret_cast<std::uint8_t*>(part.scratch + layout.rows)),
        columns_(reinterpret_cast<std::uint8_t*>(part.scratch + layout.columns)),
        numbers_(reinterpret_cast<std::uint8_t*>(part.scratch + layout.numbers)) {
    for (int k = 0; k < kWindow; ++k) std::memset(numbers_ + k * kLanes, k, kLanes);
    std::memset(sums_, 0, static_cast<std::size_t>((kWindow + 1) * row_of_sums()) * sizeof(float));
    const Tensor& stored = t_.stored.tensor.view;
    reads_in_place_ = t_.stored.kind == WinnersKind::compact && size_of(stored.dtype) == 1 && stored.strides[1] == 1;
  }

  void run(std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) make(tile_item(t_, i));
  }

 private:
  [[nodiscard]] const PoolAxis& axis_h() const { return t_.g.axes[1]; }
  [[nodiscard]] const PoolAxis& axis_w() const { return t_.g.axes[2]; }

  void make(const PoolTileItem& item) {
    const PoolPlanes& group = t_.groups[static_cast<std::size_t>(item.group)];
    const std::int64_t padding = axis_h().start_padding;
    n_ = item.n;
    c_ = item.c * t_.pixel;
    window_ = group.window;
    plane_ = group.first;
    begin_ = item.row_block * t_.rows_in_block;
    end_ = std::min(begin_ + t_.rows_in_block, t_.rows);
    found_end_ = 0;
    if (t_.stored.kind == WinnersKind::none && window_ >= 0) search_.start(n_, c_, window_);
    for (std::int64_t o = begin_ + padding - (kWindow - 1); o < end_ + padding; ++o) {
      const std::int64_t leaves = o - padding, enters = leaves + kWindow - 1;
      if (o >= 0 && o < axis_h().output && window_ >= 0) {
        if (around_ != nullptr) around_->before(o + 1);
        offer_row(o);
      } else if (is_mine(enters)) {
        std::memset(sums_of(enters), 0, static_cast<std::size_t>(row_of_sums()) * sizeof(float));
      }
      if (!is_mine(leaves)) continue;
      export_row(leaves);
      if (around_ != nullptr) around_->after(leaves + 1);
    }
  }

  // ---- Sums

  [[nodiscard]] bool is_mine(std::int64_t row) const { return row >= begin_ && row < end_; }
  [[nodiscard]] std::int64_t row_of_sums() const { return layout_.width * t_.pixel; }
  // The sums of a row of dx; rows that are not this item's share one that nobody reads.
  [[nodiscard]] float* sums_of(std::int64_t row) const {
    return sums_ + (is_mine(row) ? row % kWindow : kWindow) * row_of_sums();
  }

  [[nodiscard]] T* row_of_dx(std::int64_t row) const {
    const Dims& s = t_.dx.view.strides;
    return dx_data_ + n_ * s[0] + c_ * s[1] + plane_ * s[2] + row * s[3];
  }

  void export_row(std::int64_t row) const {
    const float* from = sums_of(row) + axis_w().start_padding * t_.pixel;
    T* to = row_of_dx(row);
    if (t_.pixel == t_.unit) return export_packed(from, to, axis_w().input * t_.pixel, t_.past_cache);
    for (std::int64_t w = 0; w < axis_w().input; ++w, from += t_.pixel, to += t_.unit) {
      export_packed(from, to, t_.pixel, t_.past_cache);
    }
  }

  // ---- Winners

  void offer_row(std::int64_t o) {
    const std::uint8_t* winners = winners_;
    std::int64_t pitch = t_.pixel;
    if (t_.stored.kind == WinnersKind::none) {
      if (o >= found_end_) {
        found_first_ = o;
        found_end_ = std::min(o + search_.rows_at_once(), axis_h().output);
        search_.find(o, found_end_ - o, [&](std::int64_t r) {
          return typename Search::Found{winners_ + r * layout_.row, nullptr};
        });
      }
      winners += (o - found_first_) * layout_.row;
    } else if (reads_in_place_) {
      const Dims& s = t_.stored.tensor.view.strides;
      winners = stored_.bytes() + n_ * s[0] + c_ * s[1] + window_ * s[2] + o * s[3];
      pitch = s[4];
      for (std::int64_t w = 0; w < axis_w().output; ++w) prefetch(winners + s[3] + w * pitch, t_.pixel);
    } else {
      stored_.read({n_, c_, window_, o, 0, axis_w().output}, winners_);
    }
    part(winners, pitch, o);
    const Dims& s = t_.dy.view.strides;
    const T* dy = dy_data_ + n_ * s[0] + c_ * s[1] + window_ * s[2] + o * s[3];
    // What is read and written next, as far as one row after the other can tell: of so many rows side by side the
    // processor does not see what comes.
    const bool asks = around_ == nullptr;
    Offers offers{.rows = rows_,
                  .columns = columns_,
                  .dy = dy,
                  .next_dy = asks ? s[3] : 0,
                  .next_dx = asks && !t_.past_cache ? row_of_dx(o + 1 - axis_h().start_padding) - dy : 0,
                  .sums = {},
                  .numbers = numbers_,
                  .dy_step = t_.unit};
    for (int k = 0; k < kWindow; ++k) offers.sums[k] = sums_of(o - axis_h().start_padding + k);
    for (std::int64_t c = 0; c < t_.pixel; c += lanes(D())) {
      if (t_.pixel == kMostPixel) {
        walk<kMostPixel>(offers, c, axis_w().output);
      } else if (t_.pixel == kMostPixel / 2) {
        walk<kMostPixel / 2>(offers, c, axis_w().output);
      } else {
        walk<kMostPixel / 4>(offers, c, axis_w().output);
      }
    }
  }

  // Parts the winners of row o of windows, whose columns are `pitch` apart, into rows and columns of their windows.
  HWY_NOINLINE void part(const std::uint8_t* winners, std::int64_t pitch, std::int64_t o) {
    const auto first = static_cast<std::uint8_t>(axis_h().first_tap(o));
    const auto count = static_cast<std::uint8_t>(axis_h().end_tap(o) - first);
    const std::int64_t run = pitch == t_.pixel ? layout_.row : t_.pixel;
    bool wrong = false;
    for (std::int64_t i = 0; i < layout_.row; i += run, winners += pitch) {
      std::int64_t k = part_run<4 * kLanes>(winners, i, 0, run, first, count, wrong);
      k = part_run<2 * kLanes>(winners, i, k, run, first, count, wrong);
      k = part_run<kLanes>(winners, i, k, run, first, count, wrong);
    }
    if (wrong) *wrong_ = true;
  }
  template <int kBytes>
  HWY_INLINE std::int64_t part_run(const std::uint8_t* winners, std::int64_t at, std::int64_t k, std::int64_t run,
                                   std::uint8_t first, std::uint8_t count, bool& wrong) const {
    const hn::FixedTag<std::uint8_t, kBytes> d;
    constexpr std::uint8_t kNo = 0xff;
    // By a tap's number, up to 15 and from there on.
    alignas(16) static constexpr std::uint8_t kRow[] = {0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3};
    alignas(16) static constexpr std::uint8_t kRowFrom16[] = {3, 3,   3,   3,   4,   4,   4,   4,
                                                              4, kNo, kNo, kNo, kNo, kNo, kNo, kNo};
    alignas(16) static constexpr std::uint8_t kColumn[] = {0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0};
    alignas(16) static constexpr std::uint8_t kColumnFrom16[] = {1, 2,   3,   4,   0,   1,   2,   3,
                                                                 4, kNo, kNo, kNo, kNo, kNo, kNo, kNo};
    const auto row_low = hn::LoadDup128(d, kRow), row_high = hn::LoadDup128(d, kRowFrom16);
    const auto column_low = hn::LoadDup128(d, kColumn), column_high = hn::LoadDup128(d, kColumnFrom16);
    auto is_wrong = hn::Zero(d);
    for (; k + kBytes <= run; k += kBytes) {
      const auto tap = hn::LoadU(d, winners + k);
      const auto number = hn::Min(tap, hn::Set(d, std::uint8_t{31}));
      const auto is_high = hn::TestBit(number, hn::Set(d, std::uint8_t{16}));
      const auto row =
          hn::IfThenElse(is_high, hn::TableLookupBytes(row_high, number), hn::TableLookupBytes(row_low, number));
      const auto column =
          hn::IfThenElse(is_high, hn::TableLookupBytes(column_high, number), hn::TableLookupBytes(column_low, number));
      hn::StoreU(row, d, rows_ + at + k);
      hn::StoreU(column, d, columns_ + at + k);
      const auto missing = hn::Or(
          is_outside(row, hn::Set(d, first), hn::Set(d, count)),
          is_outside(column, hn::LoadU(d, t_.first_column.data() + at + k), hn::LoadU(d, t_.columns.data() + at + k)));
      is_wrong = hn::Or(is_wrong, hn::IfThenElseZero(missing, hn::Not(tap)));  // of none, whose bits are all ones, zero
    }
    wrong |= !hn::AllTrue(d, hn::Eq(is_wrong, hn::Zero(d)));
    return k;
  }
  template <class VB>
  static HWY_INLINE auto is_outside(VB number, VB first, VB count) {
    const VB from_first = hn::Sub(number, first);
    return hn::Eq(hn::Max(from_first, count), from_first);
  }

  // ---- A row of windows

  // The windows of a row and the sums that they reach, those of the first window's first column first.
  struct Offers {
    const std::uint8_t *rows, *columns;
    const T* dy;
    std::ptrdiff_t next_dy, next_dx;  // from there to the same column of the rows that come next
    float* sums[kWindow];
    const std::uint8_t* numbers;  // a vector of 0, of 1, ...
    std::int64_t dy_step;         // from a column to the next
  };

  // The sums of columns o... o + 4 stand in sums[row][(column + kTurn) mod 5]: column 4 enters before window o, and
  // column 0 leaves after it. kPixel is the distance of columns: known, so that addresses need no registers.
  template <int kPixel, int kTurn>
  static HWY_INLINE void step(const Offers& w, V (&sums)[kWindow][kWindow]) {
    const D d;
    const hn::Rebind<std::uint8_t, D> bytes;
    // Numbers are compared where they lie, for want of registers.
    const auto is = [&](auto winners, int k) HWY_ATTR {
      hn::Mask<D> mask;
      mask.raw = static_cast<decltype(mask.raw)>(hn::Eq(winners, hn::Load(bytes, w.numbers + kLanes * k)).raw);
      return mask;
    };
    constexpr int kEnters = (kWindow - 1 + kTurn) % kWindow, kLeaves = kTurn;
#pragma GCC unroll 5
    for (int r = 0; r + 1 < kWindow; ++r) sums[r][kEnters] = hn::Load(d, w.sums[r] + (kTurn + kWindow - 1) * kPixel);
    sums[kWindow - 1][kEnters] = hn::Zero(d);  // the first row of windows that reaches it
    const V dy = load(d, w.dy);
    __builtin_prefetch(w.dy + w.next_dy);
    __builtin_prefetch(w.dy + w.next_dx);
    const auto rows = hn::Load(bytes, w.rows + kTurn * kPixel), columns = hn::Load(bytes, w.columns + kTurn * kPixel);
    const auto row0 = is(rows, 0), row1 = is(rows, 1), row2 = is(rows, 2), row3 = is(rows, 3), row4 = is(rows, 4);
#pragma GCC unroll 5
    for (int k = 0; k < kWindow; ++k) {
      const V offer = hn::IfThenElseZero(is(columns, k), dy);
      const int column = (k + kTurn) % kWindow;
      sums[0][column] = add_if(row0, sums[0][column], offer);
      sums[1][column] = add_if(row1, sums[1][column], offer);
      sums[2][column] = add_if(row2, sums[2][column], offer);
      sums[3][column] = add_if(row3, sums[3][column], offer);
      sums[4][column] = add_if(row4, sums[4][column], offer);
    }
#pragma GCC unroll 5
    for (int r = 0; r < kWindow; ++r) hn::Store(sums[r][kLeaves], d, w.sums[r] + kTurn * kPixel);
  }
  // The same of the next window.
  template <int kPixel, int kTurn>
  static HWY_INLINE void next_step(Offers& w, V (&sums)[kWindow][kWindow]) {
    w.dy += w.dy_step;
    step<kPixel, kTurn>(w, sums);
  }
  // What is left of the columns behind the last window.
  template <int kPixel, int kTurn>
  static HWY_INLINE void finish(const Offers& w, const V (&sums)[kWindow][kWindow]) {
#pragma GCC unroll 5
    for (int r = 0; r < kWindow; ++r) {
#pragma GCC unroll 5
      for (int k = 0; k + 1 < kWindow; ++k)
        hn::Store(sums[r][(k + kTurn) % kWindow], D(), w.sums[r] + (kTurn + k) * kPixel);
    }
  }

  template <int kPixel>
  static HWY_NOINLINE void walk(const Offers& offers, std::int64_t c, std::int64_t n) {
    const D d;
    Offers w = offers;
    w.rows += c;
    w.columns += c;
    w.dy += c;
    V sums[kWindow][kWindow];
#pragma GCC unroll 5
    for (int r = 0; r < kWindow; ++r) {
      w.sums[r] += c;
#pragma GCC unroll 5
      for (int k = 0; k + 1 < kWindow; ++k)
        sums[r][k] = r + 1 < kWindow ? hn::Load(d, w.sums[r] + k * kPixel) : hn::Zero(d);
    }
    for (; n >= kWindow; n -= kWindow) {
      step<kPixel, 0>(w, sums);
      next_step<kPixel, 1>(w, sums);
      next_step<kPixel, 2>(w, sums);
      next_step<kPixel, 3>(w, sums);
      next_step<kPixel, 4>(w, sums);
      w.dy += w.dy_step;
      w.rows += kWindow * kPixel;
      w.columns += kWindow * kPixel;
#pragma GCC unroll 5
      for (float*& of_row : w.sums) of_row += kWindow * kPixel;
    }
    if (n == 0) return finish<kPixel, 0>(w, sums);
    step<kPixel, 0>(w, sums);
    if (n == 1) return finish<kPixel, 1>(w, sums);
    next_step<kPixel, 1>(w, sums);
    if (n == 2) return finish<kPixel, 2>(w, sums);
    next_step<kPixel, 2>(w, sums);
    if (n == 3) return finish<kPixel, 3>(w, sums);
    next_step<kPixel, 3>(w, sums);
    finish<kPixel, 4>(w, sums);
  }

  const PoolGradTiles& t_;
  const Layout& layout_;
  AroundItems* around_;
  bool* wrong_;
  const T* dy_data_;
  T* dx_data_;
  StoredWinners<std::uint8_t> stored_;
  Search search_;
  float* sums_;
  std::uint8_t *winners_, *rows_, *columns_, *numbers_;
  bool reads_in_place_ = false;
  std::int64_t n_ = 0, c_ = 0, window_ = 0, plane_ = 0;  // the item's place: planes of windows and of dx
  std::int64_t begin_ = 0, end_ = 0;                     // and its rows of dx
  std::int64_t found_first_ = 0, found_end_ = 0;         // rows of windows whose winners are known
};

bool HasRoomForOffers() { return true; }

std::size_t RunPoolOffers(const PoolPart<PoolGradTiles>& part) {
  std::size_t bytes = 0;
  visit(TypeList<float, f16, bf16>{}, part.setup->dx.view.dtype, [&]<class T>() {
    const typename OfferTiles<T>::Layout layout(*part.setup);
    bytes = layout.bytes;
    if (part.scratch != nullptr) OfferTiles<T>(part, layout).run(part.first, part.last);
  });
  return bytes;
}

#else

bool HasRoomForOffers() { return false; }
std::size_t RunPoolOffers(const PoolPart<PoolGradTiles>& /*part*/) { return 0; }

#endif

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {

HWY_EXPORT(HasRoomForOffers);
HWY_EXPORT(RunPoolOffers);

bool has_room_for_offers() { return BP_DISPATCH(HasRoomForOffers)(); }
std::size_t run_offers(const PoolPart<PoolGradTiles>& part) { return BP_DISPATCH(RunPoolOffers)(part); }

}  // namespace bp::cpu
#endif
