// SPDX-License-Identifier: Apache-2.0
// Stored winners, read row by row into scratch memory as numbers of taps and checked. Compiled once for each
// instruction set.

#if defined(BP_OPS_MAX_POOL_CPU_WINNERS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BP_OPS_MAX_POOL_CPU_WINNERS_INL_H
#undef BP_OPS_MAX_POOL_CPU_WINNERS_INL_H
#else
#define BP_OPS_MAX_POOL_CPU_WINNERS_INL_H
#endif

#include "ops/max_pool/cpu_rows-inl.h"
#include "ops/max_pool/winners.h"

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

// Bytes of winners, no more than the room beyond a row: the longest registers of SVE hold four times as many.
using WinnerBytes = hn::CappedTag<std::uint8_t, kSlack>;

// W holds every tap's number and one more value, for no winner.
template <class W>
class StoredWinners {
 public:
  static constexpr W kNone = static_cast<W>(~W{0});

  // `wrong` is set when a stored winner is no tap of its window.
  StoredWinners(const PoolGeometry& g, const PoolTaps& taps, const PoolStored& stored, std::int64_t unit,
                const void* data, bool* wrong)
      : g_(g), taps_(taps), stored_(stored), unit_(unit), data_(data), wrong_(wrong) {
    const Dims& s = stored.tensor.view.strides;
    are_bytes_ =
        stored.kind == WinnersKind::compact && sizeof(W) == 1 && (unit == 1 ? s[4] == 1 : s[1] == 1 && s[4] == unit);
  }

  // The winners of the windows of `place`. Up to a vector beyond them may be written.
  HWY_INLINE void read(const RowPlace& place, W* to) const {
    const Range range = existing_taps(place.d, place.h);
    if (are_bytes_) {
      const Dims& s = stored_.tensor.view.strides;
      const std::int64_t from = place.n * s[0] + place.c * s[1] + place.d * s[2] + place.h * s[3] + place.first * s[4];
      const std::int64_t n = place.count * unit_;
      const auto* bytes = static_cast<const std::uint8_t*>(data_) + from;
      read_compact(place, range, bytes, 1, n, stored_.tensor.end < 0 ? n : stored_.tensor.end - from, to);
    } else {
      read_any(place, range, to);
    }
    drop_wrong_columns(place, to);
  }

  // Whether rows of winners are bytes side by side, which need not be copied.
  [[nodiscard]] bool are_bytes() const { return are_bytes_; }
  [[nodiscard]] const std::uint8_t* bytes() const { return static_cast<const std::uint8_t*>(data_); }

  // Checks `rows` such rows in place, `step` bytes apart, the first of which is `place`; a vector beyond the end of
  // each may be read. Returns whether every winner is right.
  bool check(const RowPlace& place, std::int64_t rows, const std::uint8_t* data, std::int64_t step) const {
    const WinnerBytes d;
    RowPlace row = place;
    auto wrong = hn::Zero(d);
    bool right = true;
    const bool is_one_run =
        unit_ == 1 && step == g_.axes[2].output && taps_.partial_left + taps_.partial_right <= PoolTaps::kFewPartial;
    int wrong_at_edges = 0;
    for (std::int64_t r = 0, together = 1; r < rows; r += together, row.h += together, data += together * step) {
      const Range range = existing_taps(row.d, row.h);
      together = 1;
      if (!range.exact) {
        right &= check_each(row, data);
      } else if (is_one_run) {
        together = rows_alike(row.h, rows - r);
        wrong = hn::Or(wrong, wrong_in_range(d, range, data, together * step));
        for (std::int64_t i = 0; i < together; ++i) wrong_at_edges |= wrong_at_edges_of(data + i * step);
      } else {
        wrong = hn::Or(wrong, unit_ == 1 ? wrong_in_row(d, range, data) : wrong_in_pixels(d, range, data));
      }
    }
    right &= is_zero(d, wrong) && wrong_at_edges == 0;
    if (!right) *wrong_ = true;
    return right;
  }

  // Fetches the winners of a row ahead of their use.
  HWY_INLINE void fetch(const RowPlace& place) const {
    const Dims& s = stored_.tensor.view.strides;
    if (!are_bytes_) return;
    prefetch(static_cast<const std::uint8_t*>(data_) + place.n * s[0] + place.c * s[1] + place.d * s[2] +
                 place.h * s[3] + place.first * s[4],
             place.count * unit_);
  }

 private:
  // The tap numbers [low, high) that exist in a row of windows as far as D and H decide; exact where one of the two
  // axes has all its taps.
  struct Range {
    std::int64_t low, high;
    bool exact;
  };
  [[nodiscard]] Range existing_taps(std::int64_t od, std::int64_t oh) const {
    const auto d = static_cast<std::size_t>(od), h = static_cast<std::size_t>(oh);
    const std::int64_t d0 = taps_.first[0][d], d1 = taps_.end[0][d];
    const std::int64_t h0 = taps_.first[1][h], h1 = taps_.end[1][h];
    if (d0 >= d1 || h0 >= h1) return {0, 0, true};
    const std::int64_t rows = g_.axes[1].window, columns = g_.axes[2].window;
    const bool all_rows = h0 == 0 && h1 == rows;
    return {(d0 * rows + h0) * columns, ((d1 - 1) * rows + h1) * columns, all_rows || g_.axes[0].window == 1};
  }
  // How many rows of windows from row h on, at most `most`, have the same taps along H.
  [[nodiscard]] std::int64_t rows_alike(std::int64_t h, std::int64_t most) const {
    const std::int64_t *first = taps_.first[1].data() + h, *end = taps_.end[1].data() + h;
    std::int64_t rows = 1;
    while (rows < most && first[rows] == first[0] && end[rows] == end[0]) ++rows;
    return rows;
  }
  [[nodiscard]] bool row_exists(const RowPlace& place, std::int64_t tap) const {
    const Spatial& k = taps_.taps[static_cast<std::size_t>(tap)];
    return g_.axes[0].exists(place.d, k[0]) && g_.axes[1].exists(place.h, k[1]);
  }

  HWY_NOINLINE void read_any(const RowPlace& place, const Range& range, W* to) const {
    visit(IndexTypes{}, stored_.tensor.view.dtype, [&]<class Index>() {
      each_run(stored_.tensor, static_cast<const Index*>(data_), unit_, place,
               [&](const Index* from, std::int64_t stride, std::int64_t n, std::int64_t readable, std::int64_t at) {
                 if (stored_.kind == WinnersKind::flat) {
                   read_flat(place, from, stride, n, at, to + at);
                 } else {
                   read_compact(place, range, from, stride, n, readable, to + at);
                 }
               });
    });
  }

  template <class Index>
  HWY_INLINE void read_compact(const RowPlace& place, const Range& range, const Index* from, std::int64_t stride,
                               std::int64_t n, [[maybe_unused]] std::int64_t readable, W* to) const {
    std::int64_t i = 0;
    if constexpr (sizeof(Index) == 1 && sizeof(W) == 1) {
      if (stride == 1 && range.exact) {
        const WinnerBytes d;
        const auto low = hn::Set(d, static_cast<std::uint8_t>(range.low));
        const auto count = hn::Set(d, static_cast<std::uint8_t>(range.high - range.low));
        const auto none = hn::Set(d, std::uint8_t{kNone});
        i = std::min(n, readable / lanes(d) * lanes(d));
        const auto wrong = wrong_in_run(d, from, i, [&](auto tap, std::int64_t at) HWY_ATTR {
          const auto missing = outside(tap, low, count);
          hn::StoreU(hn::IfThenElse(missing, none, tap), d, to + at);
          return missing;
        });
        if (!is_zero(d, wrong)) *wrong_ = true;
      }
    }
    for (; i < n; ++i) {
      const Index stored = from[i * stride];
      const auto tap = static_cast<std::uint64_t>(stored);
      const bool exists = tap >= static_cast<std::uint64_t>(range.low) &&
                          tap < static_cast<std::uint64_t>(range.high) &&
                          (range.exact || row_exists(place, static_cast<std::int64_t>(tap)));
      if (!exists && stored != kNoWinner<Index>) *wrong_ = true;
      to[i] = exists ? static_cast<W>(tap) : kNone;
    }
  }

  template <class Index>
  void read_flat(const RowPlace& place, const Index* from, std::int64_t stride, std::int64_t n, std::int64_t at,
                 W* to) const {
    for (std::int64_t i = 0; i < n; ++i) {
      const Index stored = from[i * stride];
      const std::int64_t column = (at + i) / unit_;
      const std::int64_t c = place.c + (at + i) % unit_;
      const Spatial o{place.d, place.h, place.first + column};
      std::int64_t tap = -1;
      if (stored_.tap_at.empty()) {
        const StoredWinner winner = decode(g_, WinnersKind::flat, {place.n, c, o}, stored);
        if (winner.state == StoredWinner::State::tap) tap = g_.tap_number(winner.tap);
      } else if (stored != kNoWinner<Index>) {
        const Spatial start = g_.position(o, {});
        const std::int64_t first =
            g_.flat_index(place.n, c, {}) + (start[0] * g_.axes[1].input + start[1]) * g_.axes[2].input + start[2];
        const auto distance = static_cast<std::uint64_t>(stored) - static_cast<std::uint64_t>(first);
        if (distance < stored_.tap_at.size()) tap = stored_.tap_at[distance];
        if (tap >= 0 && !row_exists(place, tap)) tap = -1;
      }
      if (tap < 0 && stored != kNoWinner<Index>) *wrong_ = true;
      to[i] = static_cast<W>(tap);
    }
  }

  // Which numbers are none of `count` from `low` on. (Taking away `low` wraps: what lies below it is large.)
  template <class V>
  static HWY_INLINE auto outside(V number, V low, V count) {
    const V from_low = hn::Sub(number, low);
    return hn::Eq(hn::Max(from_low, count), from_low);
  }

  // The columns of taps.
  template <class D, class V>
  HWY_INLINE V columns_of(D d, V tap) const {
    const auto window = static_cast<std::uint8_t>(g_.axes[2].window);
    V column = tap;
    for (std::size_t next = window; next < taps_.taps.size(); next += window) {
      const auto begin = hn::Set(d, static_cast<std::uint8_t>(next));
      column = hn::Sub(column, hn::IfThenElseZero(hn::Eq(hn::Max(tap, begin), tap), hn::Set(d, window)));
    }
    return column;
  }

  // Not zero if one of the `n` winners side by side is wrong: missing(taps, i), a mask, holds and it is not none. A
  // vector beyond them may be read.
  template <class D, class F>
  static HWY_INLINE hn::Vec<D> wrong_in_run(D d, const std::uint8_t* run, std::int64_t n, const F& missing) {
    auto wrong = hn::Zero(d);
    for (std::int64_t i = 0; i < n; i += lanes(d)) {
      const auto tap = hn::LoadU(d, run + i);
      const auto here = hn::IfThenElseZero(missing(tap, i), hn::Not(tap));  // of none, whose bits are all ones, zero
      const bool whole = i + lanes(d) <= n;
      wrong = hn::Or(wrong, whole ? here : hn::IfThenElseZero(hn::FirstN(d, static_cast<std::size_t>(n - i)), here));
    }
    return wrong;
  }
  template <class D>
  static HWY_INLINE bool is_zero(D d, hn::Vec<D> v) {
    return hn::AllTrue(d, hn::Eq(v, hn::Zero(d)));
  }

  template <class D>
  static HWY_INLINE hn::Vec<D> wrong_in_range(D d, const Range& range, const std::uint8_t* run, std::int64_t n) {
    const auto low = hn::Set(d, static_cast<std::uint8_t>(range.low));
    const auto count = hn::Set(d, static_cast<std::uint8_t>(range.high - range.low));
    return wrong_in_run(d, run, n, [&](auto tap, std::int64_t) HWY_ATTR { return outside(tap, low, count); });
  }

  // Not 0 if one of the few winners at both ends of a row, some of whose columns are padding, is such a column. (A
  // number beyond all taps has been seen already.)
  [[nodiscard]] HWY_INLINE int wrong_at_edges_of(const std::uint8_t* row) const {
    const auto* lacks = taps_.lacking.data();
    int wrong = 0;
    for (std::int64_t o = 0; o < taps_.partial_left; ++o) wrong |= (*lacks++)[row[o]];
    const std::int64_t n = g_.axes[2].output;
    for (std::int64_t o = n - taps_.partial_right; o < n; ++o) wrong |= (*lacks++)[row[o]];
    return wrong;
  }

  template <class D>
  HWY_INLINE hn::Vec<D> wrong_in_row(D d, const Range& range, const std::uint8_t* row) const {
    const auto low = hn::Set(d, static_cast<std::uint8_t>(range.low));
    const auto count = hn::Set(d, static_cast<std::uint8_t>(range.high - range.low));
    return wrong_in_run(d, row, g_.axes[2].output, [&](auto tap, std::int64_t i) HWY_ATTR {
      const auto first = hn::LoadU(d, taps_.column_low.data() + i);
      const auto columns = hn::LoadU(d, taps_.column_count.data() + i);
      return hn::Or(outside(tap, low, count), outside(columns_of(d, tap), first, columns));
    });
  }

  // The same where channels are innermost, of which there are whole vectors of 16.
  template <class D>
  HWY_INLINE hn::Vec<D> wrong_in_pixels(D d, const Range& range, const std::uint8_t* row) const {
    const std::int64_t outputs = g_.axes[2].output;
    auto wrong = wrong_in_range(d, range, row, outputs * unit_);
    for (std::int64_t o = 0; o < outputs; ++o) {
      if (o == taps_.partial_left) o = std::max(o, outputs - taps_.partial_right);
      if (o == outputs) break;
      const auto first = hn::Set(d, taps_.column_low[static_cast<std::size_t>(o)]);
      const auto columns = hn::Set(d, taps_.column_count[static_cast<std::size_t>(o)]);
      wrong = hn::Or(wrong, wrong_in_run(d, row + o * unit_, unit_, [&](auto tap, std::int64_t) HWY_ATTR {
                       return outside(columns_of(d, tap), first, columns);
                     }));
    }
    return wrong;
  }

  bool check_each(const RowPlace& place, const std::uint8_t* row) const {
    bool right = true;
    for (std::int64_t i = 0; i < place.count * unit_; ++i) {
      if (row[i] == 0xff) continue;
      const auto o = static_cast<std::size_t>(i / unit_);
      right &= row[i] < taps_.taps.size() && row_exists(place, row[i]) && taps_.taps[row[i]][2] >= taps_.first[2][o] &&
               taps_.taps[row[i]][2] < taps_.end[2][o];
    }
    return right;
  }

  // Windows at the edges, some of whose columns are padding.
  HWY_INLINE void drop_wrong_columns(const RowPlace& place, W* row) const {
    const std::int64_t end = place.first + place.count;
    const auto check = [&](std::int64_t o) HWY_ATTR {
      const std::int64_t low = taps_.first[2][static_cast<std::size_t>(o)];
      const std::int64_t high = taps_.end[2][static_cast<std::size_t>(o)];
      const auto is_missing = [&](std::size_t tap) {
        const std::int64_t column = taps_.taps[tap][2];
        return column < low || column >= high;
      };
      W* winners = row + (o - place.first) * unit_;
      if (unit_ == 1) {
        if (winners[0] != kNone && is_missing(winners[0])) drop(winners[0], winners);
      } else {
        for (std::size_t tap = 0; tap < taps_.taps.size(); ++tap) {
          if (is_missing(tap)) drop(static_cast<W>(tap), winners);
        }
      }
    };
    for (std::int64_t o = place.first; o < std::min(end, taps_.partial_left); ++o) check(o);
    for (std::int64_t o = std::max(place.first, g_.axes[2].output - taps_.partial_right); o < end; ++o) check(o);
  }

  // None of a window's channels has this winner.
  HWY_INLINE void drop(W tap, W* winners) const {
    const hn::ScalableTag<W> d;
    std::int64_t c = 0;
    for (; c + lanes(d) <= unit_; c += lanes(d)) {
      const auto all = hn::LoadU(d, winners + c);
      const auto wrong = hn::Eq(all, hn::Set(d, tap));
      if (hn::AllFalse(d, wrong)) continue;
      *wrong_ = true;
      hn::StoreU(hn::IfThenElse(wrong, hn::Set(d, kNone), all), d, winners + c);
    }
    for (; c < unit_; ++c) {
      if (winners[c] != tap) continue;
      *wrong_ = true;
      winners[c] = kNone;
    }
  }

  const PoolGeometry& g_;
  const PoolTaps& taps_;
  const PoolStored& stored_;
  std::int64_t unit_;
  const void* data_;
  bool* wrong_;
  bool are_bytes_;
};

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BP_OPS_MAX_POOL_CPU_WINNERS_INL_H
