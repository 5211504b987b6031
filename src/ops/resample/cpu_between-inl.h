// SPDX-License-Identifier: Apache-2.0
// Resample between two rows and two columns, on vectors: planes, where every output has one or two neighbours along
// each axis (linear, and not smaller than the input). Both sums are made in registers, and nothing goes through scratch
// memory. Compiled once for each instruction set.

#if defined(BP_OPS_RESAMPLE_CPU_BETWEEN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BP_OPS_RESAMPLE_CPU_BETWEEN_INL_H
#undef BP_OPS_RESAMPLE_CPU_BETWEEN_INL_H
#else
#define BP_OPS_RESAMPLE_CPU_BETWEEN_INL_H
#endif

#include "backends/cpu/simd-inl.h"
#include "ops/resample/cpu_along-inl.h"
#include "ops/resample/cpu_rows.h"
#include "ops/resample/cpu_sums-inl.h"

#include <hwy/highway.h>

#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

// One part of a run, on one thread.
template <class T>
class BetweenPart {
  using A = Acc<T>;
  using D = Lanes<A>;
  using V = hn::Vec<D>;

 public:
  BetweenPart(const Rows<A>& rows, const RowsJob& job)
      : rows_(rows),
        x_(static_cast<const T*>(job.in)),
        end_(x_ + job.in_end),
        y_(static_cast<T*>(job.out)),
        copy_(reinterpret_cast<T*>(job.scratch + rows.spare)),
        first_row_(job.first_row),
        last_row_(job.last_row),
        first_column_(rows.tile(job.first_tile).first),
        last_column_(rows.tile(job.last_tile - 1).last),
        streams_(rows.past_cache && writes_pairs()) {}

  // Past the cache, rows that are not whole lines are written better one after the other.
  [[nodiscard]] bool fits() const { return rows_.between && (streams_ || !rows_.past_cache); }

  void run() {
    const SumAxis<A>& level = rows_.level[0];
    const int last = rows_.walk.rank - 1;
    RowCursor cursor;
    cursor.set(rows_.walk, first_row_);
    for (std::int64_t row = first_row_; row < last_row_;) {
      const std::int64_t r = cursor.index[static_cast<std::size_t>(last)];
      const std::int64_t count = std::min({last_row_ - row, level.out - r, streams_ ? level.out : kAtOnce});
      const T* from = x_ + cursor.in;
      T* to = y_ + cursor.out - r * level.out_stride;
      rows_.along == Along::pixels ? along_columns(from, r, r + count, to) : down_rows(from, r, r + count, to);
      cursor.move(rows_.walk, count);
      row += count;
    }
  }

 private:
  // Where y may be in the cache, so many rows or columns are written at a time, and as many asked for ahead: a store
  // must wait for its line, and the processor does not see it coming where rows are written side by side.
  static constexpr std::int64_t kAtOnce = 8;

  // Whether two vectors side by side are whole lines, and rows and columns whole pairs of vectors.
  [[nodiscard]] bool writes_pairs() const {
    const std::int64_t unit = rows_.along == Along::pixels ? rows_.pixel : rows_.out_columns;
    return writes_lines(rows_, y_) && 2 * lanes(D()) * sizeof(T) % 64 == 0 && unit % (2 * lanes(D())) == 0;
  }

  HWY_INLINE void put(V v, T* to) const { store_or_stream(D(), v, to, streams_); }

  // The last sums of up to two terms.
  static HWY_INLINE V sum(bool two, V w0, V w1, V v0, V v1) {
    const V sum = hn::Add(hn::Zero(D()), hn::Mul(w0, v0));
    return two ? hn::Add(sum, hn::Mul(w1, v1)) : sum;
  }

  // ---- Columns of one element: down the rows -------------------------------------------------------------

#if HWY_TARGET == HWY_SCALAR
  void down_rows(const T*, std::int64_t, std::int64_t, T*) {}  // one lane: every column is a vector
#else
  // A row of x of which a vector beyond the end may be read.
  HWY_INLINE const T* readable(const T* row) const {
    if (rows_.in_columns + lanes(D()) <= end_ - row) return row;
    std::memcpy(copy_, row, static_cast<std::size_t>(rows_.in_columns) * sizeof(T));
    return copy_;
  }

  // Rows [r, end) of one plane, two vectors of their columns at a time.
  void down_rows(const T* from, std::int64_t r, std::int64_t end, T* to) const {
    const std::int64_t step = lanes(D());
    for (std::int64_t c = first_column_; c < last_column_; c += 2 * step) {
      c + step < last_column_ ? down_two(from, r, end, c, c + step, to) : down_two(from, r, end, c, c, to);
    }
  }

  // The vectors of columns from a and from b on.
  HWY_INLINE void down_two(const T* from, std::int64_t r, std::int64_t end, std::int64_t a, std::int64_t b,
                           T* to) const {
    rows_.lookup_terms == 1 ? down_two<1>(from, r, end, a, b, to) : down_two<2>(from, r, end, a, b, to);
  }
  template <int kTerms>
  HWY_INLINE void down_two(const T* from, std::int64_t r, std::int64_t end, std::int64_t a, std::int64_t b,
                           T* to) const {
    const D d;
    const std::int64_t step = lanes(d);
    const SumAxis<A>& level = rows_.level[0];
    // Of both vectors, for each term: where its lanes are, and what they weigh.
    const std::int64_t ka = a / step * kTerms, kb = b / step * kTerms;
    const auto base = [this](std::int64_t k) { return rows_.lookup_base[static_cast<std::size_t>(k)]; };
    const auto lane = [&](std::int64_t k) HWY_ATTR { return hn::SetTableIndices(d, &rows_.lookup_lane[k * step]); };
    const auto weight = [&](std::int64_t k) HWY_ATTR { return hn::LoadU(d, &rows_.lookup_weight[k * step]); };
    constexpr int kSecond = kTerms - 1;
    const std::int64_t base_a0 = base(ka), base_a1 = base(ka + kSecond), base_b0 = base(kb);
    const std::int64_t base_b1 = base(kb + kSecond);
    const auto lane_a0 = lane(ka), lane_a1 = lane(ka + kSecond), lane_b0 = lane(kb), lane_b1 = lane(kb + kSecond);
    const auto weight_a0 = weight(ka), weight_a1 = weight(ka + kSecond);
    const auto weight_b0 = weight(kb), weight_b1 = weight(kb + kSecond);
    const auto along = [&](const T* row, std::int64_t base0, std::int64_t base1, auto lane0, auto lane1, V w0,
                           V w1) HWY_ATTR {
      const V first = hn::Mul(hn::TableLookupLanes(load(d, row + base0), lane0), w0);
      if constexpr (kTerms == 1) return first;
      const V second = hn::Mul(hn::TableLookupLanes(load(d, row + base1), lane1), w1);
      return hn::Add(first, hn::IfThenElseZero(hn::Ne(w1, hn::Zero(d)), second));  // not every lane has a second term
    };
    const auto along_a = [&](const T* row)
                             HWY_ATTR { return along(row, base_a0, base_a1, lane_a0, lane_a1, weight_a0, weight_a1); };
    const auto along_b = [&](const T* row)
                             HWY_ATTR { return along(row, base_b0, base_b1, lane_b0, lane_b1, weight_b0, weight_b1); };

    const std::int64_t at_a = overlapping(a, last_column_, step), at_b = overlapping(b, last_column_, step);
    std::int64_t above = -1, below = -1;  // the rows of x whose sums these are
    V above_a = hn::Zero(d), above_b = above_a, below_a = above_a, below_b = above_a;
    for (T* q = to + r * level.out_stride; r < end; ++r, q += level.out_stride) {
      const std::int64_t k = level.begin[r], i = level.index[k];
      const bool two = level.begin[r + 1] - k == 2;
      if (above != i) {
        if (below == i) {
          above_a = below_a, above_b = below_b;
        } else {
          const T* row = readable(from + i * level.in_stride);
          above_a = along_a(row), above_b = along_b(row);
        }
        above = i;
      }
      if (two && below != i + 1) {
        const T* row = readable(from + (i + 1) * level.in_stride);
        below_a = along_a(row), below_b = along_b(row);
        below = i + 1;
      }
      const V w0 = hn::Set(d, level.weight[static_cast<std::size_t>(k)]);
      const V w1 = two ? hn::Set(d, level.weight[static_cast<std::size_t>(k + 1)]) : w0;
      if (!streams_) __builtin_prefetch(q + kAtOnce * level.out_stride + at_a, 1, 3);
      put(sum(two, w0, w1, above_a, below_a), q + at_a);
      put(sum(two, w0, w1, above_b, below_b), q + at_b);
    }
  }
#endif

  // ---- Columns of a vector or more: along them -----------------------------------------------------------

  // Rows [r, end) of one plane; two at a time where they lie between the same rows of x.
  void along_columns(const T* from, std::int64_t r, std::int64_t end, T* to) const {
    const SumAxis<A>& level = rows_.level[0];
    while (r < end) {
      const bool two = level.terms(r) == 2;
      const bool pair = r + 1 < end && level.terms(r + 1) == level.terms(r) && level.first(r + 1) == level.first(r);
      if (two) {
        pair ? along_columns<true, true>(from, r, to) : along_columns<true, false>(from, r, to);
      } else {
        pair ? along_columns<false, true>(from, r, to) : along_columns<false, false>(from, r, to);
      }
      r += pair ? 2 : 1;
    }
  }

  // kTwo: of two rows of x. kPair: the next row of y too.
  template <bool kTwo, bool kPair>
  HWY_INLINE void along_columns(const T* from, std::int64_t r, T* to) const {
    const std::int64_t step = lanes(D());
    std::int64_t c = 0;
    for (; c + 2 * step <= rows_.pixel; c += 2 * step) along_vectors<kTwo, kPair, true>(from, r, c, to);
    for (; c < rows_.pixel; c += step) {
      along_vectors<kTwo, kPair, false>(from, r, std::min(c, rows_.pixel - step), to);
    }
  }

  // The vector of every column from c on; kBoth: and the one after it.
  template <bool kTwo, bool kPair, bool kBoth>
  HWY_INLINE void along_vectors(const T* from, std::int64_t r, std::int64_t c, T* to) const {
    const D d;
    const std::int64_t step = kBoth ? lanes(d) : 0;
    const SumAxis<A>& level = rows_.level[0];
    const std::int64_t pixel = rows_.pixel;
    const std::int64_t k = level.begin[r], next = kPair ? level.begin[r + 1] : k;
    const auto weight = [&](std::int64_t i) HWY_ATTR { return hn::Set(d, level.weight[static_cast<std::size_t>(i)]); };
    const V w0 = weight(k), w1 = weight(kTwo ? k + 1 : k);
    const V v0 = weight(next), v1 = weight(kTwo ? next + 1 : next);
    const T* above = from + level.index[k] * level.in_stride + c;
    const T* below = kTwo ? above + level.in_stride : above;
    T* q = to + r * level.out_stride + first_column_ * pixel + c;
    // Copies, which what is stored cannot change.
    const std::int64_t* begin = rows_.wide.begin;
    const std::int64_t* index = rows_.wide.index;
    const A* weights = rows_.wide.weight.data();
    const std::int64_t below_y = level.out_stride;
    std::int64_t left = -1, right = -1;  // the columns of x that these are: of both rows, a and b side by side
    const V zero = hn::Zero(d);
    V above_left_a = zero, above_left_b = zero, above_right_a = zero, above_right_b = zero;
    V below_left_a = zero, below_left_b = zero, below_right_a = zero, below_right_b = zero;
    const auto read = [&](std::int64_t column, V& above_a, V& above_b, V& below_a, V& below_b) HWY_ATTR {
      const std::int64_t at = column * pixel;
      above_a = load(d, above + at);
      if constexpr (kBoth) above_b = load(d, above + at + step);
      if constexpr (kTwo) below_a = load(d, below + at);
      if constexpr (kTwo && kBoth) below_b = load(d, below + at + step);
    };
    for (std::int64_t column = first_column_; column < last_column_; ++column, q += pixel) {
      const std::int64_t e = begin[column], i = index[e];
      if (left != i) {
        if (right == i) {
          above_left_a = above_right_a, above_left_b = above_right_b;
          below_left_a = below_right_a, below_left_b = below_right_b;
        } else {
          read(i, above_left_a, above_left_b, below_left_a, below_left_b);
        }
        left = i;
      }
      const V x0 = hn::Set(d, weights[e]);
      V above_a = hn::Mul(x0, above_left_a), above_b = hn::Mul(x0, above_left_b);
      V below_a = hn::Mul(x0, below_left_a), below_b = hn::Mul(x0, below_left_b);
      if (begin[column + 1] - e == 2) {
        if (right != i + 1) {
          read(i + 1, above_right_a, above_right_b, below_right_a, below_right_b);
          right = i + 1;
        }
        const V x1 = hn::Set(d, weights[e + 1]);
        above_a = hn::Add(above_a, hn::Mul(x1, above_right_a));
        above_b = hn::Add(above_b, hn::Mul(x1, above_right_b));
        below_a = hn::Add(below_a, hn::Mul(x1, below_right_a));
        below_b = hn::Add(below_b, hn::Mul(x1, below_right_b));
      }
      if (!streams_) {
        __builtin_prefetch(q + kAtOnce * pixel, 1, 3);
        if (kPair) __builtin_prefetch(q + kAtOnce * pixel + below_y, 1, 3);
      }
      put(sum(kTwo, w0, w1, above_a, below_a), q);
      if constexpr (kBoth) put(sum(kTwo, w0, w1, above_b, below_b), q + step);
      if constexpr (kPair) put(sum(kTwo, v0, v1, above_a, below_a), q + below_y);
      if constexpr (kPair && kBoth) put(sum(kTwo, v0, v1, above_b, below_b), q + below_y + step);
    }
  }

  const Rows<A>& rows_;
  const T* x_;
  const T* end_;
  T* y_;
  T* copy_;
  std::int64_t first_row_, last_row_;
  std::int64_t first_column_, last_column_;
  bool streams_;
};

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BP_OPS_RESAMPLE_CPU_BETWEEN_INL_H
