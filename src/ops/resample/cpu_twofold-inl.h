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
        streams_(rows.past_cache && writes_lines(rows, static_cast<const T*>(job.out))) {}

  // `count` rows of dx from r on. Row i of S is at from + i * stride.
  void make(const S* from, std::int64_t stride, std::int64_t r, std::int64_t count, T* to) const {
    for (std::int64_t i = 0; i < count; i += 2, to += 2 * level_.out_stride) {
      i + 1 < count ? some_rows<2>(from, stride, r + i, to) : some_rows<1>(from, stride, r + i, to);
    }
  }

 private:
  static constexpr std::int64_t kAhead = 8192 / sizeof(S);  // elements that dy is asked for ahead

  // The rows that one or two rows of dx are sums of, and their weights. Of the first row of dx there is no first one,
  // and of the last one no last.
  struct Source {
    const S* row[6];
    const float *upper, *lower;
  };

  // kRows rows of dx from r on.
  template <int kRows>
  HWY_INLINE void some_rows(const S* from, std::int64_t stride, std::int64_t r, T* to) const {
    Source source{.row = {}, .upper = weights_of(level_, r), .lower = weights_of(level_, r + kRows - 1)};
    const S* first = from + (2 * r - 1) * stride;
    for (const S*& row : source.row) row = first, first += stride;
    const bool is_first = r == 0, is_last = r + kRows == level_.out;
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

  // Sums down the rows, of what load_of(row) gives, for both rows of dx. kFirst: the first row does not exist; kLast:
  // the last one.
  template <int kRows, bool kFirst, bool kLast, class Load>
  static HWY_INLINE void sums_down(const Source& s, const Load& load_of, V& upper, V& lower) {
    const auto times = [](float weight, V v) HWY_ATTR { return hn::Mul(hn::Set(D(), weight), v); };
    const auto plus = [](V sum, float weight, V v) HWY_ATTR { return plus_product<S>(sum, hn::Set(D(), weight), v); };
    const V v1 = load_of(s.row[1]), v2 = load_of(s.row[2]);
    if constexpr (kFirst) {
      upper = times(s.upper[1], v1);
    } else {
      upper = plus(times(s.upper[0], load_of(s.row[0])), s.upper[1], v1);
    }
    upper = plus(upper, s.upper[2], v2);
    if constexpr (kRows == 1) {
      if constexpr (!kLast) upper = plus(upper, s.upper[3], load_of(s.row[3]));
      lower = upper;
    } else {
      const V v3 = load_of(s.row[3]), v4 = load_of(s.row[4]);
      upper = plus(upper, s.upper[3], v3);
      lower = plus(plus(times(s.lower[0], v2), s.lower[1], v3), s.lower[2], v4);
      if constexpr (!kLast) lower = plus(lower, s.lower[3], load_of(s.row[5]));
    }
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

  // The sums down the columns of dy from 2c on, even and odd ones apart, of which n pairs exist: beyond them other rows
  // stand.
  template <int kRows, bool kFirst, bool kLast>
  static HWY_INLINE void sums_apart(const Source& source, std::int64_t c, std::int64_t n, V& even0, V& even1, V& odd0,
                                    V& odd1) {
    const D d;
    if constexpr (std::is_same_v<S, bf16>) {
      // Two columns are one word, whose halves are their upper bits.
      const hn::RebindToUnsigned<D> u;
      const auto pair = [=](const S* row)
                            HWY_ATTR { return hn::LoadU(u, reinterpret_cast<const std::uint32_t*>(row + 2 * c)); };
      const auto even = [=](const S* row) HWY_ATTR { return hn::BitCast(d, hn::ShiftLeft<16>(pair(row))); };
      const auto odd = [=](const S* row)
                           HWY_ATTR { return hn::BitCast(d, hn::And(pair(row), hn::Set(u, 0xffff0000u))); };
      sums_down<kRows, kFirst, kLast>(source, even, even0, even1);
      sums_down<kRows, kFirst, kLast>(source, odd, odd0, odd1);
    } else {
      V left0, left1, right0, right1;
      const auto left = [=](const S* row) HWY_ATTR { return load(d, row + 2 * c); };
      const auto right = [=](const S* row) HWY_ATTR { return load(d, row + 2 * c + lanes(d)); };
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
                             T* to, bool streams) {
    const D d;
    const V w0 = hn::LoadU(d, weight), w1 = hn::LoadU(d, weight + pitch);
    const V w2 = hn::LoadU(d, weight + 2 * pitch), w3 = hn::LoadU(d, weight + 3 * pitch);
    const V sum = sum_of<4, false, From::zero>(hn::Zero(d), w0, w1, w2, w3, last_before(d, before, odd), even, odd,
                                               first_after(d, even, after));
    n >= lanes(d) ? store_or_stream(d, sum, to, streams) : store_first(d, sum, to, n);
  }

  // A vector of even columns of dy and one of odd ones make one of dx, together with the last odd one before them and
  // the first even one after them: so dx is one vector behind.
  template <int kRows, bool kFirst, bool kLast>
  HWY_NOINLINE void along_pairs(Source& source, T* to) const {
    const D d;
    const std::int64_t step = lanes(d), n = rows_.out_columns;
    const S* ahead = source.row[1] + kAhead;  // four rows of dy are new
    if (n % step != 0) {
      make_readable(source, kFirst ? 1 : 0, 2 * kRows + (kLast ? 1 : 2), 2 * (n / step + 1) * step);
    }
    const std::int64_t below = level_.out_stride;
    const float* weight = rows_.pair_weight.data();
    const std::int64_t pitch = rows_.pair_pitch;
    const bool streams = streams_;
    const V zero = hn::Zero(d);
    V before0 = zero, before1 = zero, even0 = zero, even1 = zero, odd0 = zero, odd1 = zero;
    for (std::int64_t c = -step; c < n; c += step) {
      V next_even0 = zero, next_even1 = zero, next_odd0 = zero, next_odd1 = zero;
      if (c + step < n) {
        if constexpr (!kInScratch) {
#pragma GCC unroll 8
          for (std::int64_t i = 0; i < 8 * step; i += 64 / static_cast<std::int64_t>(sizeof(S))) {
            __builtin_prefetch(ahead + i);
          }
          ahead += 8 * step;
        }
        sums_apart<kRows, kFirst, kLast>(source, c + step, n - c - step, next_even0, next_even1, next_odd0, next_odd1);
      }
      if (c >= 0) {
        put(weight + c, pitch, before0, even0, odd0, next_even0, n - c, to + c, streams);
        if constexpr (kRows == 2)
          put(weight + c, pitch, before1, even1, odd1, next_even1, n - c, to + below + c, streams);
      }
      before0 = odd0, before1 = odd1;
      even0 = next_even0, even1 = next_even1, odd0 = next_odd0, odd1 = next_odd1;
    }
  }

  // ---- Columns of a vector or more -----------------------------------------------------------------------

  // A few columns at a time, so that rows of dy stay in the nearest cache while all of their elements are summed.
  template <int kRows, bool kFirst, bool kLast>
  HWY_NOINLINE void along_pixels(const Source& source, T* to) const {
    constexpr std::int64_t kColumnBytes = 1024, kFewest = 2;
    const std::int64_t pixel = rows_.pixel, step = lanes(D());
    const std::int64_t some = std::max(kFewest, kColumnBytes / (pixel * static_cast<std::int64_t>(sizeof(T))));
    auto* kept = reinterpret_cast<float*>(scratch_ + rows_.sums);
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
    const std::int64_t step = lanes(d), pixel = rows_.pixel, below = level_.out_stride;
    const auto sums = [&](std::int64_t column, V& upper, V& lower) HWY_ATTR {
      const std::int64_t at = column * pixel + c;
      const auto load_of = [=](const S* row) HWY_ATTR { return load(d, row + at); };
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
        if constexpr (!kInScratch) {
#pragma GCC unroll 4
          for (int k = 2 * kRows - 2; k < 2 * kRows + 2; ++k) {
            const S* ahead = source.row[k] + (2 * (i + after) + 1) * pixel + c;
            __builtin_prefetch(ahead);
            __builtin_prefetch(ahead + pixel);
          }
        }
        if (!streams_) {
          __builtin_prefetch(q + after * pixel, 1);
          if constexpr (kRows == 2) __builtin_prefetch(q + after * pixel + below, 1);
        }
      }
      // Weights change at the ends, where what is not there weighs nothing.
      if (i == first || i == 1 || i == last) {
        const float* weight = weights_of(wide, i);
        w0 = hn::Set(d, i == 0 ? 0 : weight[0]), w1 = hn::Set(d, weight[1]);
        w2 = hn::Set(d, weight[2]), w3 = hn::Set(d, i == last ? 0 : weight[3]);
      }
      V odd0, odd1, next0 = zero, next1 = zero;
      sums(2 * i + 1, odd0, odd1);
      if (i < last) sums(2 * i + 2, next0, next1);
      store_or_stream(d, sum_of<4, false, From::zero>(zero, w0, w1, w2, w3, before0, even0, odd0, next0), q, streams_);
      if constexpr (kRows == 2) {
        store_or_stream(d, sum_of<4, false, From::zero>(zero, w0, w1, w2, w3, before1, even1, odd1, next1), q + below,
                        streams_);
      }
      before0 = odd0, before1 = odd1, even0 = next0, even1 = next1;
    }
    hn::StoreU(before0, d, kept), hn::StoreU(before1, d, kept + step);
    hn::StoreU(even0, d, kept + 2 * step), hn::StoreU(even1, d, kept + 3 * step);
  }

  const Rows<float>& rows_;
  const SumAxis<float>& level_;
  std::byte* scratch_;
  const S* end_;
  std::int64_t first_column_, last_column_;
  bool streams_;
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
    each(0, n, [&](std::int64_t i, const auto& load_at) HWY_ATTR {
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
      each(first, end, [&](std::int64_t i, const auto& load_at) HWY_ATTR {
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
