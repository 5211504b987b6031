// SPDX-License-Identifier: Apache-2.0
// The gradient of a linear resampling to twice the size, on vectors: planes in which element i of dx is the sum of the
// elements 2i - 1 to 2i + 2 of dy along both axes. Both sums are made in registers, two rows of dx at a time, and rows
// of dy do not go through scratch memory. Compiled once for each instruction set.

#if defined(BP_OPS_RESAMPLE_CPU_TWOFOLD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BP_OPS_RESAMPLE_CPU_TWOFOLD_INL_H
#undef BP_OPS_RESAMPLE_CPU_TWOFOLD_INL_H
#else
#define BP_OPS_RESAMPLE_CPU_TWOFOLD_INL_H
#endif

#include "backends/cpu/simd-inl.h"
#include "ops/resample/cpu_along-inl.h"
#include "ops/resample/cpu_rows.h"
#include "ops/resample/cpu_sums-inl.h"

#include <hwy/highway.h>

#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR  // where every column is a vector

// One part of a run, on one thread. T's accumulator is float; of half types, products along the first axis are exact.
template <class T>
class TwofoldPart {
  using D = Lanes<float>;
  using V = hn::Vec<D>;

 public:
  TwofoldPart(const Rows<float>& rows, const RowsJob& job)
      : rows_(rows),
        job_(job),
        dy_(static_cast<const T*>(job.in)),
        end_(dy_ + job.in_end),
        dx_(static_cast<T*>(job.out)),
        first_column_(rows.tile(job.first_tile).first),
        last_column_(rows.tile(job.last_tile - 1).last),
        streams_(rows.past_cache && writes_lines()) {}

  void run() const {
    const SumAxis<float>& level = rows_.level[0];
    const int last = rows_.walk.rank - 1;
    RowCursor cursor;
    cursor.set(rows_.walk, job_.first_row);
    for (std::int64_t row = job_.first_row; row < job_.last_row;) {
      const std::int64_t r = cursor.index[static_cast<std::size_t>(last)];
      const std::int64_t count = std::min(job_.last_row - row, level.out - r);
      const T* from = dy_ + cursor.in;
      T* to = dx_ + cursor.out;
      for (std::int64_t i = 0; i < count; i += 2, to += 2 * level.out_stride) {
        i + 1 < count ? some_rows<2>(from, r + i, to) : some_rows<1>(from, r + i, to);
      }
      cursor.move(rows_.walk, count);
      row += count;
    }
  }

 private:
  static constexpr std::int64_t kAhead = 8192 / sizeof(T);  // elements that dy is asked for ahead

  // The rows of dy that one or two rows of dx are sums of, and their weights. Of the first row of dx there is no first
  // one, and of the last one no last.
  struct Source {
    const T* row[6];
    const float *upper, *lower;
  };

  // kRows rows of dx from r on.
  template <int kRows>
  HWY_INLINE void some_rows(const T* from, std::int64_t r, T* to) const {
    const SumAxis<float>& level = rows_.level[0];
    const T* first = from + (2 * r - 1) * level.in_stride;
    const auto weights = [&](std::int64_t i) { return level.weight.data() + level.begin[i] - (i == 0 ? 1 : 0); };
    Source source{.row = {}, .upper = weights(r), .lower = weights(r + kRows - 1)};
    for (const T*& row : source.row) row = first, first += level.in_stride;
    const bool is_first = r == 0, is_last = r + kRows == level.out;
    if (is_first) {
      is_last ? along<kRows, true, true>(source, to) : along<kRows, true, false>(source, to);
    } else {
      is_last ? along<kRows, false, true>(source, to) : along<kRows, false, false>(source, to);
    }
  }
  template <int kRows, bool kFirst, bool kLast>
  HWY_INLINE void along(Source& source, T* to) const {
    rows_.along == Along::pixels ? along_pixels<kRows, kFirst, kLast>(source, to)
                                 : along_pairs<kRows, kFirst, kLast>(source, to);
  }

  // sum + weight * v. An exact product need not be rounded before it is added.
  static HWY_INLINE V plus_product(V sum, float weight, V v) {
    const V w = hn::Set(D(), weight);
#if HWY_NATIVE_FMA
    if constexpr (sizeof(T) == 2) return hn::MulAdd(w, v, sum);
#endif
    return hn::Add(sum, hn::Mul(w, v));
  }

  // Sums down the rows of dy, of what load_of(row) gives, for both rows of dx. kFirst: the first row of dy does not
  // exist; kLast: the last one.
  template <int kRows, bool kFirst, bool kLast, class Load>
  static HWY_INLINE void sums_down(const Source& s, const Load& load_of, V& upper, V& lower) {
    const auto product = [](float weight, V v) HWY_ATTR { return hn::Mul(hn::Set(D(), weight), v); };
    const V v1 = load_of(s.row[1]), v2 = load_of(s.row[2]);
    if constexpr (kFirst) {
      upper = product(s.upper[1], v1);
    } else {
      upper = plus_product(product(s.upper[0], load_of(s.row[0])), s.upper[1], v1);
    }
    upper = plus_product(upper, s.upper[2], v2);
    if constexpr (kRows == 1) {
      if constexpr (!kLast) upper = plus_product(upper, s.upper[3], load_of(s.row[3]));
      lower = upper;
    } else {
      const V v3 = load_of(s.row[3]), v4 = load_of(s.row[4]);
      upper = plus_product(upper, s.upper[3], v3);
      lower = plus_product(plus_product(product(s.lower[0], v2), s.lower[1], v3), s.lower[2], v4);
      if constexpr (!kLast) lower = plus_product(lower, s.lower[3], load_of(s.row[5]));
    }
  }

  // ---- Columns of one element ----------------------------------------------------------------------------

  // Where vectors would read beyond the end of dy, copies of its rows.
  HWY_NOINLINE void make_readable(Source& source, int first, int last, std::int64_t columns) const {
    auto* copy = reinterpret_cast<T*>(job_.scratch + rows_.spare);
    for (int k = first; k < last; ++k) {
      const T*& row = source.row[k];
      if (columns <= end_ - row) continue;
      std::memcpy(copy, row, static_cast<std::size_t>(rows_.in_columns) * sizeof(T));
      row = copy;
      copy += columns;
    }
  }

  // The sums down the columns of dy from 2c on, even and odd ones apart, of which n pairs exist: beyond them other rows
  // stand.
  template <int kRows, bool kFirst, bool kLast>
  static HWY_INLINE void sums_apart(const Source& source, std::int64_t c, std::int64_t n, V& even0, V& even1, V& odd0,
                                    V& odd1) {
    const D d;
    if constexpr (std::is_same_v<T, bf16>) {
      // Two columns are one word, whose halves are their upper bits.
      const hn::RebindToUnsigned<D> u;
      const auto pair = [=](const T* row)
                            HWY_ATTR { return hn::LoadU(u, reinterpret_cast<const std::uint32_t*>(row + 2 * c)); };
      const auto even = [=](const T* row) HWY_ATTR { return hn::BitCast(d, hn::ShiftLeft<16>(pair(row))); };
      const auto odd = [=](const T* row)
                           HWY_ATTR { return hn::BitCast(d, hn::And(pair(row), hn::Set(u, 0xffff0000u))); };
      sums_down<kRows, kFirst, kLast>(source, even, even0, even1);
      sums_down<kRows, kFirst, kLast>(source, odd, odd0, odd1);
    } else {
      V left0, left1, right0, right1;
      const auto left = [=](const T* row) HWY_ATTR { return load(d, row + 2 * c); };
      const auto right = [=](const T* row) HWY_ATTR { return load(d, row + 2 * c + lanes(d)); };
      sums_down<kRows, kFirst, kLast>(source, left, left0, left1);
      sums_down<kRows, kFirst, kLast>(source, right, right0, right1);
      even0 = hn::ConcatEven(d, right0, left0), odd0 = hn::ConcatOdd(d, right0, left0);
      even1 = hn::ConcatEven(d, right1, left1), odd1 = hn::ConcatOdd(d, right1, left1);
    }
    if (n < lanes(d)) {
      const auto exists = hn::FirstN(d, static_cast<std::size_t>(n));
      even0 = hn::IfThenElseZero(exists, even0), odd0 = hn::IfThenElseZero(exists, odd0);
      even1 = hn::IfThenElseZero(exists, even1), odd1 = hn::IfThenElseZero(exists, odd1);
    }
  }

  // Up to a vector of dx: the sums along it.
  static HWY_INLINE void put(const float* weight, std::int64_t pitch, V before, V even, V odd, V after, std::int64_t n,
                             T* to) {
    const D d;
    const V w0 = hn::LoadU(d, weight), w1 = hn::LoadU(d, weight + pitch);
    const V w2 = hn::LoadU(d, weight + 2 * pitch), w3 = hn::LoadU(d, weight + 3 * pitch);
    const V sum = sum_of<4, false, From::zero>(hn::Zero(d), w0, w1, w2, w3, last_before(d, before, odd), even, odd,
                                               first_after(d, even, after));
    n >= lanes(d) ? store(d, sum, to) : store_first(d, sum, to, n);
  }

  // A vector of even columns of dy and one of odd ones make one of dx, together with the last odd one before them and
  // the first even one after them: so dx is one vector behind.
  template <int kRows, bool kFirst, bool kLast>
  HWY_NOINLINE void along_pairs(Source& source, T* to) const {
    const D d;
    const std::int64_t step = lanes(d), n = rows_.out_columns;
    if (n % step != 0) {
      make_readable(source, kFirst ? 1 : 0, 2 * kRows + (kLast ? 1 : 2), 2 * (n / step + 1) * step);
    }
    const std::int64_t below = rows_.level[0].out_stride;
    const float* weight = rows_.pair_weight.data();
    const std::int64_t pitch = rows_.pair_pitch;
    const T* ahead = source.row[1] + kAhead;  // four rows of dy are new
    const V zero = hn::Zero(d);
    V before0 = zero, before1 = zero, even0 = zero, even1 = zero, odd0 = zero, odd1 = zero;
    for (std::int64_t c = -step; c < n; c += step) {
      V next_even0 = zero, next_even1 = zero, next_odd0 = zero, next_odd1 = zero;
      if (c + step < n) {
#pragma GCC unroll 8
        for (std::int64_t i = 0; i < 8 * step; i += 64 / static_cast<std::int64_t>(sizeof(T))) {
          __builtin_prefetch(ahead + i);
        }
        ahead += 8 * step;
        sums_apart<kRows, kFirst, kLast>(source, c + step, n - c - step, next_even0, next_even1, next_odd0, next_odd1);
      }
      if (c >= 0) {
        put(weight + c, pitch, before0, even0, odd0, next_even0, n - c, to + c);
        if constexpr (kRows == 2) put(weight + c, pitch, before1, even1, odd1, next_even1, n - c, to + below + c);
      }
      before0 = odd0, before1 = odd1;
      even0 = next_even0, even1 = next_even1, odd0 = next_odd0, odd1 = next_odd1;
    }
  }

  // ---- Columns of a vector or more -----------------------------------------------------------------------

  // Whether vectors of dx are whole lines, or parts of one that are written one after the other.
  [[nodiscard]] bool writes_lines() const {
    constexpr std::int64_t kLine = 64;
    const std::int64_t bytes = rows_.pixel * static_cast<std::int64_t>(sizeof(T));
    return rows_.along == Along::pixels && reinterpret_cast<std::uintptr_t>(dx_) % kLine == 0 && bytes % kLine == 0 &&
           rows_.out_follows;
  }
  HWY_INLINE void put_pixel(V v, T* to) const {
    if constexpr (hn::MaxLanes(D()) * sizeof(T) >= kLeastStream) {
      if (streams_) return stream(D(), v, to);
    }
    store(D(), v, to);
  }

  // A few columns at a time, so that rows of dy stay in the nearest cache while all of their elements are summed.
  template <int kRows, bool kFirst, bool kLast>
  HWY_NOINLINE void along_pixels(const Source& source, T* to) const {
    constexpr std::int64_t kColumnBytes = 1024, kFewest = 2;
    const std::int64_t pixel = rows_.pixel, step = lanes(D());
    const std::int64_t some = std::max(kFewest, kColumnBytes / (pixel * static_cast<std::int64_t>(sizeof(T))));
    auto* kept = reinterpret_cast<float*>(job_.scratch + rows_.sums);
    for (std::int64_t i = first_column_; i < last_column_; i += some) {
      const std::int64_t end = std::min(i + some, last_column_);
      // The last vector may overlap the one before it.
      for (std::int64_t c = 0; c < pixel; c += step) {
        some_pixels<kRows, kFirst, kLast>(source, i, end, std::min(c, pixel - step), some, kept + 4 * c, to);
      }
    }
  }

  // The vector from element c on of columns [first, end) of dx. The sums of two columns of dy serve the next column of
  // dx, too; those at `end` are kept for the columns that follow, and the lines of `after` columns further on are asked
  // for.
  template <int kRows, bool kFirst, bool kLast>
  HWY_INLINE void some_pixels(const Source& rows, std::int64_t first, std::int64_t end, std::int64_t c,
                              std::int64_t after, float* kept, T* to) const {
    const D d;
    const Source source = rows;  // a copy, which what is stored cannot change
    const std::int64_t step = lanes(d), pixel = rows_.pixel, below = rows_.level[0].out_stride;
    const auto sums = [&](std::int64_t column, V& upper, V& lower) HWY_ATTR {
      const std::int64_t at = column * pixel + c;
      const auto load_of = [=](const T* row) HWY_ATTR { return load(d, row + at); };
      sums_down<kRows, kFirst, kLast>(source, load_of, upper, lower);
    };
    const V zero = hn::Zero(d);
    V before0 = zero, before1 = zero, even0 = zero, even1 = zero;
    if (first > first_column_) {
      before0 = hn::LoadU(d, kept), before1 = hn::LoadU(d, kept + step);
      even0 = hn::LoadU(d, kept + 2 * step), even1 = hn::LoadU(d, kept + 3 * step);
    } else {
      if (first > 0) sums(2 * first - 1, before0, before1);
      sums(2 * first, even0, even1);
    }
    const SumAxis<float>& wide = rows_.wide;
    const std::int64_t last = wide.out - 1;
    const bool asks = c * static_cast<std::int64_t>(sizeof(T)) % 64 == 0;  // the first vector of a line
    V w0 = zero, w1 = zero, w2 = zero, w3 = zero;
    T* q = to + first * pixel + c;
    for (std::int64_t i = first; i < end; ++i, q += pixel) {
      if (asks) {
#pragma GCC unroll 4
        for (int k = 2 * kRows - 2; k < 2 * kRows + 2; ++k) {
          const T* ahead = source.row[k] + (2 * (i + after) + 1) * pixel + c;
          __builtin_prefetch(ahead);
          __builtin_prefetch(ahead + pixel);
        }
        if (!streams_) {
          __builtin_prefetch(q + after * pixel, 1);
          if constexpr (kRows == 2) __builtin_prefetch(q + after * pixel + below, 1);
        }
      }
      // Weights change at the ends, where what is not there weighs nothing.
      if (i == first || i == 1 || i == last) {
        const float* weight = wide.weight.data() + wide.begin[i] - (i == 0 ? 1 : 0);
        w0 = hn::Set(d, i == 0 ? 0 : weight[0]), w1 = hn::Set(d, weight[1]);
        w2 = hn::Set(d, weight[2]), w3 = hn::Set(d, i == last ? 0 : weight[3]);
      }
      V odd0, odd1, next0 = zero, next1 = zero;
      sums(2 * i + 1, odd0, odd1);
      if (i < last) sums(2 * i + 2, next0, next1);
      put_pixel(sum_of<4, false, From::zero>(zero, w0, w1, w2, w3, before0, even0, odd0, next0), q);
      if constexpr (kRows == 2) {
        put_pixel(sum_of<4, false, From::zero>(zero, w0, w1, w2, w3, before1, even1, odd1, next1), q + below);
      }
      before0 = odd0, before1 = odd1, even0 = next0, even1 = next1;
    }
    hn::StoreU(before0, d, kept), hn::StoreU(before1, d, kept + step);
    hn::StoreU(even0, d, kept + 2 * step), hn::StoreU(even1, d, kept + 3 * step);
  }

  const Rows<float>& rows_;
  const RowsJob& job_;
  const T* dy_;
  const T* end_;
  T* dx_;
  std::int64_t first_column_, last_column_;
  bool streams_;
};

#endif

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BP_OPS_RESAMPLE_CPU_TWOFOLD_INL_H
