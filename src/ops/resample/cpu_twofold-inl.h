// SPDX-License-Identifier: Apache-2.0
// The gradient of a linear resampling to twice the size, on vectors: element i of dx is the sum of the elements 2i - 1
// to 2i + 2 of dy along every axis. In a plane both sums are made in registers, two rows of dx at a time, and rows of
// dy do not go through scratch memory. In a volume planes are summed first. Compiled once for each instruction set.

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
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR  // where every column is a vector

// sum + weight * v, of an element of T. Those of half types, by the short weights of the first axis, are exact, and
// need not be rounded before they are added.
template <class T, class V>
HWY_INLINE V plus_product(V sum, V weight, V v) {
#if HWY_NATIVE_FMA
  if constexpr (sizeof(T) == 2) return hn::MulAdd(weight, v, sum);
#endif
  return hn::Add(sum, hn::Mul(weight, v));
}

// The weights of sum i. Of the first one there is no first term, and of the last one no last.
inline const float* weights_of(const SumAxis<float>& axis, std::int64_t i) {
  return axis.weight.data() + axis.begin[i] - (i == 0 ? 1 : 0);
}

// Rows of dx out of rows of S: of dy, which are asked for ahead, or of sums in scratch memory.
template <class S, class T, bool kInScratch>
class TwofoldRows {
  using D = Lanes<float>;
  using V = hn::Vec<D>;

 public:
  // Up to `end` memory may be read.
  TwofoldRows(const Rows<float>& rows, const RowsJob& job, const S* end)
      : rows_(rows),
        level_(rows.level[static_cast<std::size_t>(rows.levels - 1)]),
        scratch_(job.scratch),
        end_(end),
        first_column_(rows.tile(job.first_tile).first),
        last_column_(rows.tile(job.last_tile - 1).last),
        streams_(rows.past_cache && writes_lines(rows, static_cast<const T*>(job.out))),
        is_alike_inside_(level_.out > 2 && level_.runs[1].count == level_.out - 2 &&
                         (rows.along == Along::pixels || rows.out_columns % lanes(D()) == 0)) {}

  // `count` rows of dx from r on. Row i of S is at from + i * stride.
  void make(const S* from, std::int64_t stride, std::int64_t r, std::int64_t count, T* to) const {
    while (count > 0) {
      const std::int64_t pairs = pairs_inside(r, count), made = std::min(count, std::max<std::int64_t>(2 * pairs, 2));
      Source source{
          .row = {}, .stride = stride, .upper = weights_of(level_, r), .lower = weights_of(level_, r + made - 1)};
      const S* first = from + (2 * r - 1) * stride;
      for (const S*& row : source.row) row = first, first += stride;
      if (pairs > 0) {
        along<Which<2, false, false, true>>(source, to, pairs);
      } else if (made == 2) {
        at_edge<2>(source, r, to);
      } else {
        at_edge<1>(source, r, to);
      }
      r += made, count -= made, to += made * level_.out_stride;
    }
  }

 private:
  static constexpr std::int64_t kAhead = 8192 / sizeof(S);  // elements that dy is asked for ahead

  // The rows that one or two rows of dx are sums of, `stride` apart unless copies stand in for them, and their weights.
  // Of the first row of dx there is no first one, and of the last one no last.
  struct Source {
    const S* row[6];
    std::int64_t stride;
    const float *upper, *lower;
  };

  // Which rows of dx are made: one or two; whether the first, or the last one is among them; or that they are inside:
  // two of those that have four terms, and the weights that all others inside have. Those stay in registers.
  template <int kRowsMade, bool kHasFirst, bool kHasLast, bool kAlike = false>
  struct Which {
    static constexpr int kRows = kRowsMade;
    static constexpr bool kFirst = kHasFirst, kLast = kHasLast, kInside = kAlike;
  };

  // How many pairs of rows of dx from r on, at most `count` rows, lie inside.
  [[nodiscard]] std::int64_t pairs_inside(std::int64_t r, std::int64_t count) const {
    return is_alike_inside_ && r > 0 ? std::min(count, level_.out - 1 - r) / 2 : 0;
  }
  // kRows rows of dx from r on.
  template <int kRows>
  HWY_INLINE void at_edge(Source& source, std::int64_t r, T* to) const {
    const bool is_first = r == 0, is_last = r + kRows == level_.out;
    if (is_first) {
      is_last ? along<Which<kRows, true, true>>(source, to) : along<Which<kRows, true, false>>(source, to);
    } else {
      is_last ? along<Which<kRows, false, true>>(source, to) : along<Which<kRows, false, false>>(source, to);
    }
  }
  template <class W>
  HWY_INLINE void along(Source& source, T* to, std::int64_t pairs = 1) const {
    if (rows_.along != Along::pixels) return along_pairs<W>(source, to, pairs);
    for (; pairs > 0; --pairs, to += 2 * level_.out_stride) {
      along_pixels<W>(source, to);
      for (const S*& row : source.row) row += 4 * source.stride;
    }
  }

  // Sums down the rows, of what load_of(row) gives, for both rows of dx.
  template <class W, class Load>
  static HWY_INLINE void sums_down(const Source& s, const Load& load_of, V& upper, V& lower) {
    const auto times = [](float weight, V v) HWY_ATTR { return hn::Mul(hn::Set(D(), weight), v); };
    const auto plus = [](V sum, float weight, V v) HWY_ATTR { return plus_product<S>(sum, hn::Set(D(), weight), v); };
    const V v1 = load_of(s.row[1]), v2 = load_of(s.row[2]);
    if constexpr (W::kFirst) {
      upper = times(s.upper[1], v1);
    } else {
      upper = plus(times(s.upper[0], load_of(s.row[0])), s.upper[1], v1);
    }
    upper = plus(upper, s.upper[2], v2);
    if constexpr (W::kRows == 1) {
      if constexpr (!W::kLast) upper = plus(upper, s.upper[3], load_of(s.row[3]));
      lower = upper;
    } else {
      const V v3 = load_of(s.row[3]), v4 = load_of(s.row[4]);
      upper = plus(upper, s.upper[3], v3);
      lower = plus(plus(times(s.lower[0], v2), s.lower[1], v3), s.lower[2], v4);
      if constexpr (!W::kLast) lower = plus(lower, s.lower[3], load_of(s.row[5]));
    }
  }

  // The same inside: of three rows from `top` on and three from `middle` on, so that addresses need few registers.
  template <class Load>
  static HWY_INLINE void sums_inside(const S* top, const S* middle, std::int64_t stride, V w0, V w1, V w2, V w3,
                                     const Load& load_of, V& upper, V& lower) {
    const V v1 = load_of(top + stride), v2 = load_of(top + 2 * stride), v3 = load_of(middle);
    upper = plus_product<S>(hn::Mul(w0, load_of(top)), w1, v1);
    lower = plus_product<S>(hn::Mul(w0, v2), w1, v3);
    upper = plus_product<S>(upper, w2, v2);
    lower = plus_product<S>(lower, w2, load_of(middle + stride));
    upper = plus_product<S>(upper, w3, v3);
    lower = plus_product<S>(lower, w3, load_of(middle + 2 * stride));
  }

  // Two elements of bf16 are one word, whose halves are their upper bits: the first ones of so many words, the second
  // ones, and both put back.
  static HWY_INLINE V first_of_words(const S* p) {
    const hn::RebindToUnsigned<D> u;
    return hn::BitCast(D(), hn::ShiftLeft<16>(hn::LoadU(u, reinterpret_cast<const std::uint32_t*>(p))));
  }
  static HWY_INLINE V second_of_words(const S* p) {
    const hn::RebindToUnsigned<D> u;
    const auto words = hn::LoadU(u, reinterpret_cast<const std::uint32_t*>(p));
    return hn::BitCast(D(), hn::And(words, hn::Set(u, 0xffff0000u)));
  }
  static HWY_INLINE void put_words(V first, V second, T* to, bool streams) {
    const hn::RebindToUnsigned<D> u;
    store_or_stream(u, interleaved<T>(D(), first, second), reinterpret_cast<std::uint32_t*>(to), streams);
  }

  // ---- Columns of one element ----------------------------------------------------------------------------

  // Where vectors would read beyond the end of dy, copies of its rows.
  HWY_NOINLINE void make_readable(Source& source, int first, int last, std::int64_t columns) const {
    auto* copy = reinterpret_cast<S*>(scratch_ + rows_.spare);
    for (int k = first; k < last; ++k) {
      const S*& row = source.row[k];
      if (columns <= end_ - row) continue;
      std::memcpy(copy, row, static_cast<std::size_t>(rows_.in_columns) * sizeof(S));
      row = copy;
      copy += columns;
    }
  }

  // The sums down a vector of even columns of dy and one of odd ones: down(load_of, distance, upper, lower) makes those
  // of what load_of(row) gives, `distance` columns further on.
  template <class Down>
  static HWY_INLINE void sums_apart(const Down& down, V& even0, V& even1, V& odd0, V& odd1) {
    if constexpr (std::is_same_v<S, bf16>) {
      down([](const S* p) HWY_ATTR { return first_of_words(p); }, 0, even0, even1);
      down([](const S* p) HWY_ATTR { return second_of_words(p); }, 0, odd0, odd1);
    } else {
      const auto side = [](const S* p) HWY_ATTR { return load(D(), p); };
      V left0, left1, right0, right1;
      down(side, 0, left0, left1);
      down(side, lanes(D()), right0, right1);
      even0 = hn::ConcatEven(D(), right0, left0), odd0 = hn::ConcatOdd(D(), right0, left0);
      even1 = hn::ConcatEven(D(), right1, left1), odd1 = hn::ConcatOdd(D(), right1, left1);
    }
  }

  // The first n lanes of v, and zero.
  static HWY_INLINE V first_lanes(V v, std::int64_t n) {
    return hn::IfThenElseZero(hn::FirstN(D(), static_cast<std::size_t>(n)), v);
  }

  // A vector of even columns of dy and one of odd ones make one of dx, together with the last odd one before them and
  // the first even one after them: so dx is one vector behind.
  template <class W>
  HWY_NOINLINE void along_pairs(Source& source, T* to, std::int64_t pairs) const {
    const D d;
    const std::int64_t step = lanes(d), n = rows_.out_columns, stride = source.stride;
    const S* ahead = source.row[1] + kAhead;  // four rows of dy are new
    if (n % step != 0) {
      make_readable(source, W::kFirst ? 1 : 0, 2 * W::kRows + (W::kLast ? 1 : 2), 2 * (n / step + 1) * step);
    }
    const V w0 = hn::Set(d, W::kInside ? source.upper[0] : 0), w1 = hn::Set(d, source.upper[1]);
    const V w2 = hn::Set(d, source.upper[2]), w3 = hn::Set(d, W::kInside ? source.upper[3] : 0);
    const std::int64_t below = level_.out_stride, pitch = rows_.pair_pitch;
    const float* weights = rows_.pair_weight.data();
    const bool streams = streams_;
    const V zero = hn::Zero(d);
    for (const S* rows = source.row[0]; pairs > 0; --pairs, rows += 4 * stride, to += 2 * below) {
      const S *top = rows, *middle = rows + 3 * stride;
      V before0 = zero, before1 = zero, even0 = zero, even1 = zero, odd0 = zero, odd1 = zero;
      for (std::int64_t c = -step; c < n; c += step) {
        V next_even0 = zero, next_even1 = zero, next_odd0 = zero, next_odd1 = zero;
        if (const std::int64_t left = n - c - step; left > 0) {
          if constexpr (!kInScratch) {
#pragma GCC unroll 8
            for (std::int64_t i = 0; i < 8 * step; i += 64 / static_cast<std::int64_t>(sizeof(S))) {
              __builtin_prefetch(ahead + i);
            }
            ahead += 8 * step;
          }
          const auto down = [&](const auto& load_of, std::int64_t distance, V& upper, V& lower) HWY_ATTR {
            if constexpr (W::kInside) {
              sums_inside(top + distance, middle + distance, stride, w0, w1, w2, w3, load_of, upper, lower);
            } else {
              const std::int64_t at = 2 * (c + step) + distance;
              sums_down<W>(
                  source, [=](const S* row) HWY_ATTR { return load_of(row + at); }, upper, lower);
            }
          };
          sums_apart(down, next_even0, next_even1, next_odd0, next_odd1);
          top = step_on(top, 2 * step), middle = step_on(middle, 2 * step);
          if (!W::kInside && left < step) {  // beyond the end of a row stand other rows
            next_even0 = first_lanes(next_even0, left), next_odd0 = first_lanes(next_odd0, left);
            next_even1 = first_lanes(next_even1, left), next_odd1 = first_lanes(next_odd1, left);
          }
        }
        if (c >= 0) {
          const float* weight = weights + c;
          const V x0 = hn::LoadU(d, weight), x1 = hn::LoadU(d, weight + pitch);
          const V x2 = hn::LoadU(d, weight + 2 * pitch), x3 = hn::LoadU(d, weight + 3 * pitch);
          const auto put = [&](V before, V even, V odd, V after, T* p) HWY_ATTR {
            const V sum = sum_of<4, false, From::zero>(zero, x0, x1, x2, x3, last_before(d, before, odd), even, odd,
                                                       first_after(d, even, after));
            W::kInside || n - c >= step ? store_or_stream(d, sum, p, streams) : store_first(d, sum, p, n - c);
          };
          put(before0, even0, odd0, next_even0, to + c);
          if constexpr (W::kRows == 2) put(before1, even1, odd1, next_even1, to + below + c);
        }
        before0 = odd0, before1 = odd1;
        even0 = next_even0, even1 = next_even1, odd0 = next_odd0, odd1 = next_odd1;
      }
    }
  }

  // ---- Columns of a vector or more -----------------------------------------------------------------------
  //
  // Columns one after the other, or two at a time, and in them one vector after the other, so that memory is read and
  // written in its order. The sums of two columns of dy serve the next column of dx, too: they are kept in scratch
  // memory, four vectors for each one of a column.

  // kPairs: two vectors of bf16 at a time are the halves of so many words, which are taken apart and put together by
  // fewer instructions than vectors side by side.
  template <class W>
  HWY_INLINE void along_pixels(const Source& source, T* to) const {
    constexpr bool kIsPaired = std::is_same_v<S, bf16> && std::is_same_v<T, bf16>;
    if constexpr (kIsPaired) {
      if (rows_.pixel % (2 * lanes(D())) == 0) return all_pixels<W, true>(source, to);
    }
    all_pixels<W, false>(source, to);
  }
  template <class W, bool kPairs>
  HWY_NOINLINE void all_pixels(const Source& source, T* to) const {
    const SumAxis<float>& wide = rows_.wide;
    const std::int64_t last = wide.out - 1;
    begin_pixels<W, kPairs>(source);
    for (std::int64_t i = first_column_; i < last_column_;) {
      // Weights change at the ends, where what is not there weighs nothing.
      const float* weight = weights_of(wide, i);
      if (i == last) {
        const float weights[] = {weight[0], weight[1], weight[2], 0};
        pixels<W, kPairs, 1, false>(source, i, weights, to);
        ++i;
      } else if (i > 0 && i + 1 < std::min(last, last_column_)) {
        pixels<W, kPairs, 2, true>(source, i, weight, to);
        i += 2;
      } else {
        const float weights[] = {i == 0 ? 0 : weight[0], weight[1], weight[2], weight[3]};
        pixels<W, kPairs, 1, true>(source, i, weights, to);
        ++i;
      }
    }
  }

  [[nodiscard]] float* kept() const { return reinterpret_cast<float*>(scratch_ + rows_.sums); }

  // Of the vectors that are one step: a vector, or the first or second halves of words.
  template <bool kPairs, bool kSecond>
  static HWY_INLINE V element(const S* p) {
    if constexpr (kPairs) {
      return kSecond ? second_of_words(p) : first_of_words(p);
    } else {
      return load(D(), p);
    }
  }

  // What the first column of dx shares with the one before it.
  template <class W, bool kPairs>
  HWY_NOINLINE void begin_pixels(const Source& source) const {
    const std::int64_t step = lanes(D()) * (kPairs ? 2 : 1), pixel = rows_.pixel;
    float* keep = kept();
    for (std::int64_t c = 0; c < pixel; c += step, keep += 4 * step) {
      const std::int64_t at = 2 * first_column_ * pixel + std::min(c, pixel - step);
      begin_vector<W, kPairs, false>(source, at, keep);
      if constexpr (kPairs) begin_vector<W, true, true>(source, at, keep + 4 * lanes(D()));
    }
  }
  template <class W, bool kPairs, bool kSecond>
  HWY_INLINE void begin_vector(const Source& source, std::int64_t at, float* keep) const {
    const D d;
    const auto sums = [&](std::int64_t i, V& upper, V& lower) HWY_ATTR {
      sums_down<W>(
          source, [=](const S* row) HWY_ATTR { return element<kPairs, kSecond>(row + i); }, upper, lower);
    };
    V before0 = hn::Zero(d), before1 = before0, even0, even1;
    if (first_column_ > 0) sums(at - rows_.pixel, before0, before1);
    sums(at, even0, even1);
    hn::StoreU(before0, d, keep), hn::StoreU(before1, d, keep + lanes(d));
    hn::StoreU(even0, d, keep + 2 * lanes(d)), hn::StoreU(even1, d, keep + 3 * lanes(d));
  }

  // kColumns columns of dx from column i on, with the same weights. kHasNext: the last one is not the row's last one.
  // Some columns further on, or in the rows that come next, dy and dx are asked for.
  template <class W, bool kPairs, int kColumns, bool kHasNext>
  HWY_NOINLINE void pixels(const Source& rows, std::int64_t i, const float* weight, T* to) const {
    constexpr std::int64_t kAheadBytes = 1024, kFewestAhead = 2;
    const D d;
    const Source source = rows;  // a copy, which what is stored cannot change
    const std::int64_t vector = lanes(d), step = vector * (kPairs ? 2 : 1), pixel = rows_.pixel;
    const std::int64_t below = level_.out_stride, stride = source.stride;
    const V w0 = hn::Set(d, W::kInside ? source.upper[0] : 0), w1 = hn::Set(d, source.upper[1]);
    const V w2 = hn::Set(d, source.upper[2]), w3 = hn::Set(d, W::kInside ? source.upper[3] : 0);
    const V x0 = hn::Set(d, weight[0]), x1 = hn::Set(d, weight[1]), x2 = hn::Set(d, weight[2]);
    const V x3 = hn::Set(d, weight[3]), zero = hn::Zero(d);

    // Of the rows of dy that are new. Where a line has two steps, each of them asks for half of the rows.
    constexpr bool kHalf = !kPairs && 2 * sizeof(S) * hn::MaxLanes(D()) <= 64;
    constexpr bool kHalfOut = !kPairs && sizeof(T) < 4 && W::kRows == 2;
    std::int64_t ahead = i + std::max(kFewestAhead, kAheadBytes / (pixel * static_cast<std::int64_t>(sizeof(T))));
    const bool in_next_rows = ahead >= last_column_;
    if (in_next_rows) ahead -= last_column_ - first_column_;
    const S* asked =
        source.row[2 * W::kRows - 2] + (2 * ahead + 1) * pixel + (in_next_rows ? 2 * W::kRows * stride : 0);
    const T* asked_out = to + ahead * pixel + (in_next_rows ? W::kRows * below : 0);
    const std::int64_t other_rows = kHalf ? 2 * stride : 0, other_out = kHalfOut ? below : 0;
    const bool alternates = kHalf && pixel / step % 2 != 0;
    const bool streams = streams_;

    std::int64_t at = (2 * i + 1) * pixel;
    const S *top = source.row[0] + at, *middle = source.row[3] + at;
    T* q = to + i * pixel;
    float* keep = kept();
    bool is_odd = false;
    for (std::int64_t left = pixel; left > 0; left -= step, keep += 4 * step, is_odd = !is_odd) {
      if constexpr (!kInScratch) {
        const S* these = asked + (is_odd ? other_rows : 0);
        const S* next = asked + (is_odd != alternates ? other_rows : 0) + pixel;
#pragma GCC unroll 2
        for (int k = 0; k < kColumns; ++k) {
#pragma GCC unroll 4
          for (int row = 0; row < (kHalf ? 2 : 4); ++row) {
            __builtin_prefetch(these + row * stride);
            __builtin_prefetch(next + row * stride);
          }
          these += 2 * pixel, next += 2 * pixel;
        }
        asked += step;
      }
      if (!streams) {
        const T* out = asked_out + (is_odd ? other_out : 0);
#pragma GCC unroll 2
        for (int k = 0; k < kColumns; ++k) {
          __builtin_prefetch(out + k * pixel, 1);
          if constexpr (W::kRows == 2 && !kHalfOut) __builtin_prefetch(out + k * pixel + below, 1);
        }
        asked_out += step;
      }
      // Both rows of dx, of one vector: put(column, upper, lower).
      const auto make = [&](const auto& one, float* kept_here, const auto& put) BP_INLINE_LAMBDA {
        V before0 = hn::LoadU(d, kept_here), before1 = hn::LoadU(d, kept_here + vector);
        V even0 = hn::LoadU(d, kept_here + 2 * vector), even1 = hn::LoadU(d, kept_here + 3 * vector);
        const S *p = top, *m = middle;
        std::int64_t column = at;
        const auto sums = [&](V& upper, V& lower) BP_INLINE_LAMBDA {
          if constexpr (W::kInside) {
            sums_inside(p, m, stride, w0, w1, w2, w3, one, upper, lower);
            p = step_on(p, pixel), m = step_on(m, pixel);
          } else {
            sums_down<W>(
                source, [&](const S* row) HWY_ATTR { return one(row + column); }, upper, lower);
            column += pixel;
          }
        };
#pragma GCC unroll 2
        for (int k = 0; k < kColumns; ++k) {
          V odd0 = zero, odd1 = zero, next0 = zero, next1 = zero;
          sums(odd0, odd1);
          if constexpr (kHasNext) sums(next0, next1);
          put(k, sum_of<4, false, From::zero>(zero, x0, x1, x2, x3, before0, even0, odd0, next0),
              sum_of<4, false, From::zero>(zero, x0, x1, x2, x3, before1, even1, odd1, next1));
          before0 = odd0, before1 = odd1, even0 = next0, even1 = next1;
        }
        hn::StoreU(before0, d, kept_here), hn::StoreU(before1, d, kept_here + vector);
        hn::StoreU(even0, d, kept_here + 2 * vector), hn::StoreU(even1, d, kept_here + 3 * vector);
      };
      const auto first = [](const S* p) HWY_ATTR { return element<kPairs, false>(p); };
      if constexpr (kPairs) {
        V upper0 = zero, upper1 = zero, lower0 = zero, lower1 = zero;
        make(first, keep, [&](int k, V upper, V lower) BP_INLINE_LAMBDA {
          (k == 0 ? upper0 : upper1) = upper;
          (k == 0 ? lower0 : lower1) = lower;
        });
        const auto second = [](const S* p) HWY_ATTR { return element<true, true>(p); };
        make(second, keep + 4 * vector, [&](int k, V upper, V lower) BP_INLINE_LAMBDA {
          put_words(k == 0 ? upper0 : upper1, upper, q + k * pixel, streams);
          if constexpr (W::kRows == 2) put_words(k == 0 ? lower0 : lower1, lower, q + k * pixel + below, streams);
        });
      } else {
        make(first, keep, [&](int k, V upper, V lower) BP_INLINE_LAMBDA {
          store_or_stream(d, upper, q + k * pixel, streams);
          if constexpr (W::kRows == 2) store_or_stream(d, lower, q + k * pixel + below, streams);
        });
      }
      // The last vector may overlap the one before it.
      const std::int64_t move = std::min(step, left - step);
      top += move, middle += move, at += move, q += move;
    }
  }

  const Rows<float>& rows_;
  const SumAxis<float>& level_;
  std::byte* scratch_;
  const S* end_;
  std::int64_t first_column_, last_column_;
  bool streams_;
  bool is_alike_inside_;  // all rows of dx but the first and the last have the same weights, and whole vectors
};

// Planes: one part of a run, on one thread.
template <class T>
void twofold_planes(const Rows<float>& rows, const RowsJob& job) {
  const auto* dy = static_cast<const T*>(job.in);
  const TwofoldRows<T, T, false> plane(rows, job, dy + job.in_end);
  const SumAxis<float>& level = rows.level[0];
  RowCursor cursor;
  cursor.set(rows.walk, job.first_row);
  for (std::int64_t row = job.first_row; row < job.last_row;) {
    const std::int64_t r = cursor.index[static_cast<std::size_t>(rows.walk.rank - 1)];
    const std::int64_t count = std::min(job.last_row - row, level.out - r);
    plane.make(dy + cursor.in, level.in_stride, r, count, static_cast<T*>(job.out) + cursor.out);
    cursor.move(rows.walk, count);
    row += count;
  }
}

// Volumes: the same. Each plane of dy is read once, and added to both sums of planes that want it: the one that it
// ends, whose rows are then made into dx, and the one that it begins, for the next plane of dx.
template <class T>
class TwofoldVolumes {
  using D = Lanes<float>;
  using V = hn::Vec<D>;

 public:
  TwofoldVolumes(const Rows<float>& rows, const RowsJob& job)
      : rows_(rows),
        job_(job),
        dy_(static_cast<const T*>(job.in)),
        dx_(static_cast<T*>(job.out)),
        sum_(reinterpret_cast<float*>(job.scratch + rows.result)),
        next_(sum_ + rows.plane_pitch),
        plane_(rows, job, sum_ + 2 * rows.plane_pitch) {}

  void run() {
    const std::int64_t planes = rows_.level[0].out, lines = rows_.level[1].out;
    const auto rank = static_cast<std::size_t>(rows_.walk.rank);
    RowCursor cursor;
    for (std::int64_t row = job_.first_row; row < job_.last_row;) {
      cursor.set(rows_.walk, row);
      Box box{.z = cursor.index[rank - 2], .planes = 1, .y = cursor.index[rank - 1], .lines = 0};
      const std::int64_t left = job_.last_row - row;
      if (box.y == 0 && left >= lines) box.planes = std::min(left / lines, planes - box.z);
      box.lines = std::min(left, lines - box.y);
      row += box.planes * box.lines;
      // So few rows at a time that the sums stay in the second cache.
      const std::int64_t end = box.y + box.lines;
      T* to = dx_ + cursor.out;
      for (; box.y < end; box.y += rows_.plane_rows, to += rows_.plane_rows * rows_.level[1].out_stride) {
        box.lines = std::min(rows_.plane_rows, end - box.y);
        some(dy_ + cursor.in, box, to);
      }
    }
  }

 private:
  struct Box {
    std::int64_t z, planes, y, lines;  // of dx
  };

  void some(const T* from, const Box& box, T* to) {
    const SumAxis<float>&outer = rows_.level[0], &level = rows_.level[1];
    const std::int64_t low = std::max<std::int64_t>(2 * box.y - 1, 0);
    const std::int64_t high = std::min(2 * (box.y + box.lines) + 1, level.in);
    const std::int64_t pitch = rows_.in_columns * rows_.pixel;
    from += low * pitch + 2 * box.z * outer.in_stride;
    begin(from, box.z, (high - low) * pitch);
    for (std::int64_t z = box.z; z < box.z + box.planes; ++z) {
      from += 2 * outer.in_stride;
      if (z + 1 == outer.out) {
        add<false, false>(from, z, (high - low) * pitch);
      } else if (z + 1 == box.z + box.planes) {
        add<true, false>(from, z, (high - low) * pitch);
      } else {
        add<true, true>(from, z, (high - low) * pitch);
      }
      plane_.make(sum_ - low * pitch, pitch, box.y, box.lines, to);
      std::swap(sum_, next_);
      to += outer.out_stride;
    }
  }

  // What the sum of planes z begins with, n elements: those of the plane at `from` and of the one before it.
  void begin(const T* from, std::int64_t z, std::int64_t n) {
    const D d;
    const float* weight = weights_of(rows_.level[0], z);
    const V w0 = hn::Set(d, z > 0 ? weight[0] : 0), w1 = hn::Set(d, weight[1]);
    const T* before = z > 0 ? from - rows_.level[0].in_stride : from;
    each(0, n, [&](std::int64_t i, const auto& load_at) BP_INLINE_LAMBDA {
      V sum = hn::Mul(w1, load_at(from + i));
      if (z > 0) sum = plus_product<T>(hn::Mul(w0, load_at(before + i)), w1, load_at(from + i));
      hn::StoreU(sum, d, sum_ + i);
    });
  }

  // Adds the plane before `from`, and the one at `from` if it exists, to the sum z; kNext: and begins the next one.
  template <bool kTwo, bool kNext>
  HWY_NOINLINE void add(const T* from, std::int64_t z, std::int64_t n) {
    const D d;
    const SumAxis<float>& outer = rows_.level[0];
    const float* weight = weights_of(outer, z);
    const float* other = kNext ? weights_of(outer, z + 1) : weight + 1;
    const V w2 = hn::Set(d, weight[2]), w3 = hn::Set(d, kTwo ? weight[3] : 0);
    const V x0 = hn::Set(d, other[0]), x1 = hn::Set(d, other[1]);
    const T* before = from - outer.in_stride;
    // Copies, which what is stored cannot change.
    float *sums = sum_, *next = next_;
    constexpr std::int64_t kSome = 1024 / sizeof(T);
    for (std::int64_t first = 0; first < n; first += kSome) {
      const std::int64_t end = std::min(first + kSome, n);
      if constexpr (kNext) {
        prefetch(before + 2 * outer.in_stride + first, end - first);
        prefetch(from + 2 * outer.in_stride + first, end - first);
      }
      each(first, end, [&](std::int64_t i, const auto& load_at) BP_INLINE_LAMBDA {
        const V v2 = load_at(before + i), sum = plus_product<T>(hn::LoadU(d, sums + i), w2, v2);
        if constexpr (kTwo) {
          const V v3 = load_at(from + i);
          hn::StoreU(plus_product<T>(sum, w3, v3), d, sums + i);
          if constexpr (kNext) hn::StoreU(plus_product<T>(hn::Mul(x0, v2), x1, v3), d, next + i);
        } else {
          hn::StoreU(sum, d, sums + i);
        }
      });
    }
  }

  // Calls f(i, how to load) for every vector of n elements.
  template <class F>
  static HWY_INLINE void each(std::int64_t first, std::int64_t n, const F& f) {
    const D d;
    std::int64_t i = first;
    for (; i + lanes(d) <= n; i += lanes(d)) f(i, [=](const T* p) HWY_ATTR { return load(d, p); });
    if (i < n) f(i, [=](const T* p) HWY_ATTR { return load_first(d, p, n - i); });
  }

  const Rows<float>& rows_;
  const RowsJob& job_;
  const T* dy_;
  T* dx_;
  float *sum_, *next_;
  TwofoldRows<float, T, true> plane_;
};

#endif

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BP_OPS_RESAMPLE_CPU_TWOFOLD_INL_H
