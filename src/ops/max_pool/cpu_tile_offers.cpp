// SPDX-License-Identifier: Apache-2.0
// The gradient of max pooling where each window offers its dy to the sums of all elements that it reaches, instead of
// each element asking all windows.
//
// For 5x5 windows of stride 1 over channels that are innermost. All windows of a row whose winners are in one column of
// x agree on the row of it, too: they see the same rows, and each takes the column's first greatest value if it takes
// any of that column. So five windows at most offer their dy to one sum of five, and which that is, is known before: a
// row of windows is parted into rows and columns of winners, and each column of x is told its row (aim). Then a walk
// along the columns takes the sum of that row, makes up to five additions, each in the lanes whose window has its
// winner there, and puts it back: ten comparisons and five additions for a window, where asking takes 25 of both, and
// dy is widened once. It needs masks and many registers: AVX-512 has both.
//
// Stored winners may be none that a search finds: where a column's windows do not agree, each of the five rows is
// walked for itself.
//
// Rows of windows come in ascending order, and so do the windows of a row: the contract's order. Sums of rows wait in a
// ring of five rows. A winner that is wrong has no code, and offers nothing.

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
    std::int64_t row = 0;             // winners of an item's row of windows: all of them, side by side
    std::int64_t width = 0;           // of a row of sums: columns of x, padding and all that windows reach
    std::int64_t first = 0, end = 0;  // columns of it that exist and are reached
    std::size_t sums, winners, winner_rows, winner_columns, some_columns, targets, codes, bytes;
    typename Search::Layout search{};

    explicit Layout(const PoolGradTiles& t) {
      const PoolAxis& w = t.g.axes[2];
      row = w.output * t.pixel;
      const std::int64_t reached = w.output + kWindow - 1;
      width = std::max(reached, w.start_padding + w.input);
      first = w.start_padding;
      end = std::min(reached, w.start_padding + w.input);
      const bool seeks = t.stored.kind == WinnersKind::none;
      ScratchLayout scratch;
      sums = scratch.reserve((kWindow + 1) * width * t.pixel, sizeof(float));
      winners = scratch.reserve((seeks ? tile_height(1) : 1) * row + kSlack, 1);
      // Beside the windows that there are, as many without winners as a column of sums may ask for.
      const std::int64_t parted = (reached + kWindow - 1) * t.pixel + kSlack;
      winner_rows = scratch.reserve(parted, 1);
      winner_columns = scratch.reserve(parted, 1);
      some_columns = scratch.reserve(parted, 1);
      targets = scratch.reserve(reached * t.pixel + kSlack, 1);
      codes = scratch.reserve(w.output * OfferCode::kTaps, 1);
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
        rows_(reinterpret_cast<std::uint8_t*>(part.scratch + layout.winner_rows)),
        columns_(reinterpret_cast<std::uint8_t*>(part.scratch + layout.winner_columns)),
        some_columns_(reinterpret_cast<std::uint8_t*>(part.scratch + layout.some_columns)),
        targets_(reinterpret_cast<std::uint8_t*>(part.scratch + layout.targets)),
        codes_(reinterpret_cast<std::uint8_t*>(part.scratch + layout.codes)) {
    std::memset(rows_, 0, layout.targets - layout.winner_rows);
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
        if (t_.pixel == kMostPixel) {
          offer_row<kMostPixel>(o);
        } else if (t_.pixel == kMostPixel / 2) {
          offer_row<kMostPixel / 2>(o);
        } else {
          offer_row<kMostPixel / 4>(o);
        }
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
      if (t_.past_cache) {
        export_packed(from, to, t_.pixel, true);
      } else {
        for (std::int64_t c = 0; c < t_.pixel; c += kLanes) store(D(), hn::Load(D(), from + c), to + c);
      }
    }
  }

  // ---- Winners

  template <int kPixel>
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
      if (around_ == nullptr) {
        for (std::int64_t w = 0; w < axis_w().output; ++w) prefetch(winners + s[3] + w * pitch, t_.pixel);
      }
    } else {
      stored_.read({n_, c_, window_, o, 0, axis_w().output}, winners_);
    }
    know_codes(o);
    part<kPixel>(winners, pitch);
    if (aim<kPixel>()) return offer<kPixel>(columns_, o);
    for (int r = 0; r < kWindow;
         ++r) {  // one after the other: sums of different rows have nothing to do with each other
      aim_at(r);
      offer<kPixel>(some_columns_, o);
    }
  }

  template <int kPixel>
  void offer(const std::uint8_t* columns, std::int64_t o) const {
    const Dims& s = t_.dy.view.strides;
    const T* dy = dy_data_ + n_ * s[0] + c_ * s[1] + window_ * s[2] + o * s[3];
    // What is read and written next, as far as one row after the other can tell: of so many rows side by side the
    // processor does not see what comes.
    Offers offers{.targets = targets_,
                  .columns = columns,
                  .dy = dy,
                  .next_dy = s[3],
                  .next_dx = t_.past_cache ? 0 : row_of_dx(o + 1 - axis_h().start_padding) - dy,
                  .sums = {},
                  .dy_step = t_.unit,
                  .windows = axis_w().output,
                  .first = layout_.first,
                  .end = layout_.end};
    for (int k = 0; k < kWindow; ++k) offers.sums[k] = sums_of(o - axis_h().start_padding + k);
    walk<kPixel>(offers, around_ == nullptr);
  }

  // The codes of the taps that the windows of row o have.
  void know_codes(std::int64_t o) {
    const std::int64_t first = t_.taps.first[1][static_cast<std::size_t>(o)];
    const std::int64_t end = t_.taps.end[1][static_cast<std::size_t>(o)];
    if (first == coded_first_ && end == coded_end_) return;
    coded_first_ = first;
    coded_end_ = end;
    const hn::FixedTag<std::uint8_t, OfferCode::kTaps> d;
    const auto rows = hn::Set(d, static_cast<std::uint8_t>((1 << end) - (1 << first)));
    for (std::size_t i = 0; i < t_.codes.size(); i += hn::Lanes(d)) {
      const auto code = hn::LoadU(d, t_.codes.data() + i);
      hn::Store(hn::IfThenElseZero(hn::Ne(hn::And(code, rows), hn::Zero(d)), code), d, codes_ + i);
    }
  }

  // Parts the winners of a row of windows, whose columns of kPixel lanes are `pitch` apart, into rows and columns of
  // their windows.
  template <int kPixel>
  HWY_NOINLINE void part(const std::uint8_t* winners, std::int64_t pitch) {
    const hn::FixedTag<std::uint8_t, kPixel> d;
    const auto of_row = hn::Set(d, OfferCode::kRows);
    auto wrong = hn::Zero(d);
    const std::uint8_t* codes = codes_;
    std::uint8_t* rows = rows_ + (kWindow - 1) * kPixel;
    std::uint8_t* columns = columns_ + (kWindow - 1) * kPixel;
    for (const std::uint8_t* end = rows + layout_.row; rows < end; rows += kPixel, columns += kPixel) {
      const auto tap = hn::LoadU(d, winners);
      // Two tables of 16, which have 0 for numbers whose upper bit is set.
      const auto number = hn::Min(tap, hn::Set(d, std::uint8_t{OfferCode::kTaps - 1}));
      const auto low =
          hn::TableLookupBytes(hn::LoadDup128(d, codes), hn::SaturatedAdd(number, hn::Set(d, std::uint8_t{0x70})));
      const auto high =
          hn::TableLookupBytes(hn::LoadDup128(d, codes + 16), hn::Sub(number, hn::Set(d, std::uint8_t{16})));
      const auto code = hn::Or(low, high);
      // Of none, whose bits are all ones, zero.
      wrong = hn::Or(wrong, hn::IfThenElseZero(hn::Eq(code, hn::Zero(d)), hn::Not(tap)));
      hn::StoreU(hn::And(code, of_row), d, rows);
      hn::StoreU(hn::AndNot(of_row, code), d, columns);
      winners += pitch;
      codes += OfferCode::kTaps;
    }
    if (!hn::AllTrue(d, hn::Eq(wrong, hn::Zero(d)))) *wrong_ = true;
  }

  // ---- A row of windows

  // For each column of sums, in which of the window's rows its winners are. Returns whether that is one row only, as it
  // is where they were sought: that of the column's first greatest value.
  template <int kPixel>
  HWY_NOINLINE bool aim() const {
    const hn::FixedTag<std::uint8_t, 4 * kLanes> d;
    auto many = hn::Zero(d);
    const std::uint8_t *rows = rows_, *columns = columns_;
    std::uint8_t* targets = targets_;
    const std::int64_t end = layout_.end * kPixel;
    for (std::int64_t i = layout_.first * kPixel; i < end; i += lanes(d)) {
      auto found = hn::Zero(d);
#pragma GCC unroll 5
      for (int k = 0; k < kWindow; ++k) {
        const std::int64_t window = i + (kWindow - 1 - k) * kPixel;
        const auto is_here = hn::Eq(hn::LoadU(d, columns + window), hn::Set(d, OfferCode::column(k)));
        found = hn::Or(found, hn::IfThenElseZero(is_here, hn::LoadU(d, rows + window)));
      }
      many = hn::Or(many, hn::And(found, hn::Sub(found, hn::Set(d, std::uint8_t{1}))));
      hn::StoreU(found, d, targets + i);
    }
    return hn::AllTrue(d, hn::Eq(many, hn::Zero(d)));
  }

  // Leaves those columns of winners that are in row r of their windows, and aims at it.
  HWY_NOINLINE void aim_at(int r) {
    const hn::FixedTag<std::uint8_t, 4 * kLanes> d;
    const auto row = hn::Set(d, OfferCode::row(r));
    for (std::int64_t i = 0; i < layout_.row; i += lanes(d)) {
      const std::int64_t window = (kWindow - 1) * t_.pixel + i;
      const auto is_here = hn::Eq(hn::LoadU(d, rows_ + window), row);
      hn::StoreU(hn::IfThenElseZero(is_here, hn::LoadU(d, columns_ + window)), d, some_columns_ + window);
    }
    std::memset(targets_, OfferCode::row(r), static_cast<std::size_t>(layout_.end * t_.pixel));
  }

  // A row of windows, and the sums that they reach; `first` and `end` are of the columns that exist.
  struct Offers {
    const std::uint8_t *targets, *columns;
    const T* dy;
    std::ptrdiff_t next_dy, next_dx;  // from there to the same column of the rows that come next
    float* sums[kWindow];
    std::int64_t dy_step;  // from a column to the next
    std::int64_t windows, first, end;
  };

  // Column `at` of sums, lanes from there on. dy[k] is that of the window whose column k it is. kPixel is the distance
  // of columns: known, so that addresses need no registers.
  template <int kPixel>
  static HWY_INLINE void add_column(const Offers& w, std::int64_t at, const V (&dy)[kWindow]) {
    const D d;
    const hn::Rebind<std::uint8_t, D> bytes;
    const auto target = hn::Load(bytes, w.targets + at);
    hn::Mask<D> rows[kWindow];
    V sum = hn::Zero(d);
#pragma GCC unroll 5
    for (int r = 0; r < kWindow; ++r) {
      rows[r] = byte_is(d, target, OfferCode::row(r));
      if (r + 1 < kWindow) sum = V{_mm512_mask_load_ps(sum.raw, rows[r].raw, w.sums[r] + at)};
    }
#pragma GCC unroll 5
    for (int k = kWindow - 1; k >= 0; --k) {
      const auto column = hn::Load(bytes, w.columns + at + (kWindow - 1 - k) * kPixel);
      sum = add_if(byte_is(d, column, OfferCode::column(k)), sum, dy[k]);
    }
#pragma GCC unroll 5
    for (int r = 0; r + 1 < kWindow; ++r) hn::BlendedStore(sum, rows[r], d, w.sums[r] + at);
    // No row of windows before has reached this one.
    hn::Store(hn::IfThenElseZero(rows[kWindow - 1], sum), d, w.sums[kWindow - 1] + at);
  }

  // A vector of channels after the other. Beyond the windows that there are stand none with winners: any dy will do for
  // them, so that of the nearest one does. What comes next is asked for line by line.
  template <int kPixel>
  static HWY_NOINLINE void walk(const Offers& offers, bool asks) {
    const D d;
    const Offers w = offers;  // a copy, which what is stored cannot change
    const std::int64_t last = w.windows - 1;
    for (std::int64_t c = 0; c < kPixel; c += kLanes) {
      const bool begins_line = asks && c * static_cast<std::int64_t>(sizeof(T)) % 64 == 0;
      const auto dy_of = [&](std::int64_t window) {
        return w.dy + std::clamp<std::int64_t>(window, 0, last) * w.dy_step + c;
      };
      V dy[kWindow];
#pragma GCC unroll 5
      for (int k = 1; k < kWindow; ++k) dy[k - 1] = load(d, dy_of(w.first - k));
      const T* from = dy_of(w.first);
      std::int64_t at = w.first * kPixel + c;
      for (std::int64_t column = w.first; column < w.end; ++column, at += kPixel) {
#pragma GCC unroll 5
        for (int k = kWindow - 1; k > 0; --k) dy[k] = dy[k - 1];
        dy[0] = load(d, from);
        if (begins_line) {
          __builtin_prefetch(from + w.next_dy);
          __builtin_prefetch(from + w.next_dx);
        }
        add_column<kPixel>(w, at, dy);
        from += column < last ? w.dy_step : 0;
      }
    }
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
  std::uint8_t *winners_, *rows_, *columns_, *some_columns_, *targets_, *codes_;
  std::int64_t coded_first_ = 0, coded_end_ = 0;  // rows of the windows that codes_ are of
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
