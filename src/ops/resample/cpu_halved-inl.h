// SPDX-License-Identifier: Apache-2.0
// The gradient of a linear resampling to half the size, on vectors: planes in which the elements 2i and 2i + 1 of dx
// have one term each along both axes, element i of dy. What was read of dy is weighed in registers and written to two
// rows. Compiled once for each instruction set.

#if defined(BP_OPS_RESAMPLE_CPU_HALVED_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BP_OPS_RESAMPLE_CPU_HALVED_INL_H
#undef BP_OPS_RESAMPLE_CPU_HALVED_INL_H
#else
#define BP_OPS_RESAMPLE_CPU_HALVED_INL_H
#endif

#include "backends/cpu/simd-inl.h"
#include "ops/resample/cpu_along-inl.h"
#include "ops/resample/cpu_rows.h"
#include "ops/resample/cpu_sums-inl.h"

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR  // where every column is a vector

// One part of a run, on one thread. T's accumulator is float.
template <class T>
class HalvedPart {
  using D = Lanes<float>;
  using V = hn::Vec<D>;

 public:
  HalvedPart(const Rows<float>& rows, const RowsJob& job)
      : rows_(rows),
        level_(rows.level[0]),
        job_(job),
        dy_(static_cast<const T*>(job.in)),
        dx_(static_cast<T*>(job.out)),
        first_column_(rows.tile(job.first_tile).first),
        last_column_(rows.tile(job.last_tile - 1).last),
        streams_(rows.past_cache && writes_lines(rows, dx_)) {}

  // Past the cache, rows that are not whole lines are written better one after the other.
  [[nodiscard]] bool fits() const { return rows_.halved && (streams_ || !rows_.past_cache); }

  void run() const {
    RowCursor cursor;
    cursor.set(rows_.walk, job_.first_row);
    for (std::int64_t row = job_.first_row; row < job_.last_row;) {
      const std::int64_t r = cursor.index[static_cast<std::size_t>(rows_.walk.rank - 1)];
      const std::int64_t count = std::min(job_.last_row - row, level_.out - r);
      make(dy_ + cursor.in, r, r + count, dx_ + cursor.out - r * level_.out_stride);
      cursor.move(rows_.walk, count);
      row += count;
    }
  }

 private:
  static constexpr std::int64_t kAhead = 4096;  // bytes that lines are asked for ahead

  template <class E>
  static HWY_INLINE const std::byte* ahead(const E* p) {
    return reinterpret_cast<const std::byte*>(p) + kAhead;
  }

  // Rows [r, end) of one plane of dx, two at a time where they are alike.
  void make(const T* from, std::int64_t r, std::int64_t end, T* to) const {
    while (r < end) {
      const T* p = from + r / 2 * level_.in_stride;
      T* q = to + r * level_.out_stride;
      const float weight = level_.weight[static_cast<std::size_t>(r)];
      const bool pair = r % 2 == 0 && r + 1 < end && level_.repeats[static_cast<std::size_t>(r + 1)] != 0;
      if (streams_) {
        pair ? along<true, true>(p, weight, q) : along<false, true>(p, weight, q);
      } else {
        pair ? along<true, false>(p, weight, q) : along<false, false>(p, weight, q);
      }
      r += pair ? 2 : 1;
    }
  }

  // A row of dx; kPair: and the next one, which is like it.
  template <bool kPair, bool kStreams>
  HWY_INLINE void along(const T* from, float weight, T* to) const {
    rows_.along == Along::pixels ? along_pixels<kPair, kStreams>(from, weight, to)
                                 : along_elements<kPair, kStreams>(from, weight, to);
  }

  // v at `to` and, kPair, at `below` as well; the lines that follow are asked for.
  template <bool kPair, bool kStreams, class E, class DE, class VE>
  static HWY_INLINE void put(DE d, VE v, E* to, E* below) {
    if constexpr (!kStreams) __builtin_prefetch(ahead(to), 1);
    store_or_stream(d, v, to, kStreams);
    if constexpr (kPair) {
      if constexpr (!kStreams) __builtin_prefetch(ahead(below), 1);
      store_or_stream(d, v, below, kStreams);
    }
  }

  // a[0] b[0] a[1] b[1] ...
  template <bool kPair, bool kStreams>
  static HWY_INLINE void put_both(V a, V b, T* to, T* below) {
    const D d;
    if constexpr (sizeof(T) == 4) {
      put<kPair, kStreams>(d, interleave_lower(d, a, b), to, below);
      put<kPair, kStreams>(d, interleave_upper(d, a, b), to + lanes(d), below + lanes(d));
    } else {
      // Two elements are one word.
      put<kPair, kStreams>(hn::RebindToUnsigned<D>(), interleaved<T>(d, a, b), reinterpret_cast<std::uint32_t*>(to),
                           reinterpret_cast<std::uint32_t*>(below));
    }
  }

  // Columns of one element: a vector of dy makes two.
  template <bool kPair, bool kStreams>
  HWY_INLINE void along_elements(const T* from, float weight, T* to) const {
    const D d;
    // Copies, which what is stored cannot change.
    const std::int64_t step = lanes(d), end = last_column_ / 2;
    const float* along = rows_.wide.weight.data();
    T* below = to + level_.out_stride;
    const bool alike = rows_.halves_alike;
    const V w = hn::Set(d, weight), zero = hn::Zero(d);
    for (std::int64_t at = first_column_ / 2; at < end; at += step) {
      const std::int64_t c = overlapping(at, end, step);
      __builtin_prefetch(ahead(from + c));
      const V v = hn::Mul(w, load(d, from + c));
      const V w0 = hn::LoadU(d, along + 2 * c), w1 = hn::LoadU(d, along + 2 * c + step);
      const V even = hn::Add(zero, hn::Mul(hn::ConcatEven(d, w1, w0), v));
      const V odd = alike ? even : hn::Add(zero, hn::Mul(hn::ConcatOdd(d, w1, w0), v));
      put_both<kPair, kStreams>(even, odd, to + 2 * c, below + 2 * c);
    }
  }

  // Columns of a vector or more: one of dy makes two.
  template <bool kPair, bool kStreams>
  HWY_INLINE void along_pixels(const T* from, float weight, T* to) const {
    const D d;
    // Copies, which what is stored cannot change.
    const std::int64_t step = lanes(d), pixel = rows_.pixel, last = last_column_;
    const std::int64_t stride = level_.out_stride;
    const float* along = rows_.wide.weight.data();
    const bool alike = rows_.halves_alike;
    const V w = hn::Set(d, weight), zero = hn::Zero(d);
    for (std::int64_t i = first_column_; i < last; ++i) {
      const bool both = i % 2 == 0 && i + 1 < last;
      const T* p = from + i / 2 * pixel;
      const V w0 = hn::Set(d, along[i]), w1 = hn::Set(d, along[both ? i + 1 : i]);
      for (std::int64_t at = 0; at < pixel; at += step) {
        const std::int64_t c = overlapping(at, pixel, step);
        __builtin_prefetch(ahead(p + c));
        T* q = to + i * pixel + c;
        const V v = hn::Mul(w, load(d, p + c)), left = hn::Add(zero, hn::Mul(w0, v));
        put<kPair, kStreams>(d, left, q, q + stride);
        if (!both) continue;
        put<kPair, kStreams>(d, alike ? left : hn::Add(zero, hn::Mul(w1, v)), q + pixel, q + pixel + stride);
      }
      i += both ? 1 : 0;
    }
  }

  const Rows<float>& rows_;
  const SumAxis<float>& level_;
  const RowsJob& job_;
  const T* dy_;
  T* dx_;
  std::int64_t first_column_, last_column_;
  bool streams_;
};

#endif

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BP_OPS_RESAMPLE_CPU_HALVED_INL_H
