// SPDX-License-Identifier: Apache-2.0
// Weighted sums along rows on vectors: the last sums, from +0. Compiled once for each instruction set.

#if defined(BP_OPS_RESAMPLE_CPU_ALONG_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BP_OPS_RESAMPLE_CPU_ALONG_INL_H
#undef BP_OPS_RESAMPLE_CPU_ALONG_INL_H
#else
#define BP_OPS_RESAMPLE_CPU_ALONG_INL_H
#endif

#include "backends/cpu/simd-inl.h"
#include "ops/resample/cpu_rows.h"
#include "ops/resample/cpu_sums-inl.h"

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

// Rows follow each other where they go, so nothing is written beyond one: the last two vectors overlap. Only a row of
// less than a vector is followed by what the next one overwrites.
HWY_INLINE std::int64_t overlapping(std::int64_t at, std::int64_t n, std::int64_t step) {
  return n >= step ? std::min(at, n - step) : at;
}

// Steady sums along a row of columns, n elements each.
template <class A, class U>
HWY_INLINE void slide_columns(const A* from, const A* weight, std::int64_t count, std::int64_t n, U* to) {
  const Lanes<A> d;
  const auto w0 = hn::Set(d, weight[0]), w1 = hn::Set(d, weight[1]);
  const auto w2 = hn::Set(d, weight[2]), w3 = hn::Set(d, weight[3]);
  const auto zero = hn::Zero(d);
  for (std::int64_t at = 0; at < n; at += lanes(d)) {
    const std::int64_t c = overlapping(at, n, lanes(d));
    const A* p = from + c;
    U* q = to + c;
    auto v0 = hn::LoadU(d, p), v1 = hn::LoadU(d, p + n);
    for (std::int64_t i = 0; i < count; ++i, q += n) {
      p += 2 * n;
      const auto v2 = hn::LoadU(d, p), v3 = hn::LoadU(d, p + n);
      store(d, sum_of<4, false, From::zero>(zero, w0, w1, w2, w3, v0, v1, v2, v3), q);
      v0 = v2, v1 = v3;
    }
  }
}

template <int kTerms, bool kUnit, class A, class U>
HWY_INLINE void pixel_of_few(const Terms<A, A>& terms, std::int64_t n, U* to) {
  const Lanes<A> d;
  const A* p0 = terms.row(0);
  const A* p1 = terms.row(kTerms > 1 ? 1 : 0);
  const A* p2 = terms.row(kTerms > 2 ? 2 : 0);
  const A* p3 = terms.row(kTerms > 3 ? 3 : 0);
  const auto w0 = hn::Set(d, terms.weight[0]);
  const auto w1 = hn::Set(d, terms.weight[kTerms > 1 ? 1 : 0]);
  const auto w2 = hn::Set(d, terms.weight[kTerms > 2 ? 2 : 0]);
  const auto w3 = hn::Set(d, terms.weight[kTerms > 3 ? 3 : 0]);
  const auto zero = hn::Zero(d);
  for (std::int64_t at = 0; at < n; at += lanes(d)) {
    const std::int64_t c = overlapping(at, n, lanes(d));
    store(d, sum_at<kTerms, kUnit, From::zero>(d, zero, w0, w1, w2, w3, p0 + c, p1 + c, p2 + c, p3 + c), to + c);
  }
}

template <bool kUnit, class A, class U>
HWY_INLINE void pixel_of_few(const Terms<A, A>& terms, std::int64_t n, U* to) {
  switch (terms.count) {
    case 1:
      return pixel_of_few<1, kUnit>(terms, n, to);
    case 2:
      return pixel_of_few<2, kUnit>(terms, n, to);
    case 3:
      return pixel_of_few<3, kUnit>(terms, n, to);
    default:
      return pixel_of_few<4, kUnit>(terms, n, to);
  }
}

template <class A, class U>
HWY_INLINE void pixel_of_many(const Terms<A, A>& terms, std::int64_t n, std::int64_t block, U* to) {
  const Lanes<A> d;
  for (std::int64_t at = 0; at < n; at += lanes(d)) {
    const std::int64_t c = overlapping(at, n, lanes(d));
    auto total = hn::Zero(d);
    for (std::int64_t k = 0; k < terms.count;) {
      auto sum = hn::Zero(d);
      for (const std::int64_t end = k + std::min(block, terms.count - k); k < end; ++k) {
        sum = hn::Add(sum, hn::Mul(hn::Set(d, terms.weight[k]), hn::LoadU(d, terms.row(k) + c)));
      }
      total = hn::Add(total, sum);
    }
    store(d, total, to + c);
  }
}

// Columns of at least half a vector: one row.
template <class A, class U>
HWY_INLINE void along_pixels(const Rows<A>& rows, const Tile& tile, std::int64_t pixel, const A* from, U* to) {
  const SumAxis<A>& wide = rows.wide;
  from -= tile.low * pixel;
  for (std::int64_t r = tile.first; r < tile.last;) {
    const std::int64_t k = wide.begin[r];
    const A* weight = wide.weight.data() + k;
    const auto& run = wide.runs[static_cast<std::size_t>(r)];
    const std::int64_t steady = std::min(run.count, tile.last - r);
    if (steady > 1 && run.repeat == 1 && run.shift == 2 && wide.terms(r) == 4) {
      slide_columns(from + wide.index[k] * pixel, weight, steady, pixel, to);
      r += steady;
      to += steady * pixel;
      continue;
    }
    const Terms<A, A> terms{from, pixel, wide.index + k, weight, wide.terms(r), wide.unit, nullptr};
    if (terms.count == 0 || terms.count > 4) {
      pixel_of_many(terms, pixel, rows.block, to);
    } else if (wide.unit) {
      pixel_of_few<true>(terms, pixel, to);
    } else {
      pixel_of_few<false>(terms, pixel, to);
    }
    ++r;
    to += pixel;
  }
}

// Sums of two rows, and of two columns along them, at once: nearest, twice the size. A column is a vector or more.
template <class A, class T, class U>
HWY_INLINE void nearest_pixels(const T* from, std::int64_t stride, std::int64_t columns, std::int64_t pixel,
                               bool streams, U* to) {
  const Lanes<A> d;
  constexpr std::int64_t kAhead = 2048 / sizeof(T);  // of two rows in turn the processor does not see what comes next
  for (std::int64_t i = 0; i < columns; ++i, from += 2 * pixel, to += pixel) {
    const T* below = from + stride;
    prefetch(from + kAhead, 2 * pixel);
    prefetch(below + kAhead, 2 * pixel);
    for (std::int64_t at = 0; at < pixel; at += lanes(d)) {
      const std::int64_t c = overlapping(at, pixel, lanes(d)), e = c + pixel;
      const auto left = hn::Add(load(d, from + c), load(d, below + c));
      const auto right = hn::Add(load(d, from + e), load(d, below + e));
      store_or_stream(d, hn::Add(hn::Add(hn::Zero(d), left), right), to + c, streams);
    }
  }
}

// The rows of a block: where each begins in scratch, and where it goes.
template <class A, class U>
struct RowSet {
  std::int64_t count;
  const A* from;
  std::int64_t pitch;
  U* to;
  const std::int64_t* offset;
};

#if HWY_TARGET == HWY_SCALAR

// One lane: every column is a vector, and nothing below is ever called.
template <class A, class U>
void along_pairs(const Rows<A>&, const Tile&, const RowSet<A, U>&) {}
template <bool kFar, class A, class U>
void along_lookups(const Rows<A>&, const Tile&, const RowSet<A, U>&) {}
template <bool kFar, class A, class L>
void move_lookups(const Rows<A>&, const Tile&, const L*, L*) {}
template <class A, class T, class U>
void nearest_pairs(const T*, std::int64_t, std::int64_t, U*) {}

#else

// Even and odd columns apart: term k of column r is element r + (first + k) / 2, rounded down, of one of them.
template <int kTerms, bool kUnit, class A, class U>
HWY_INLINE void pairs_of(const Rows<A>& rows, const Tile& tile, const RowSet<A, U>& set) {
  const Lanes<A> d;
  const std::int64_t step = lanes(d);
  const std::int64_t n = tile.last - tile.first;
  const std::int64_t first = 2 * tile.first + rows.shift - tile.low;
  const auto source = [&](std::int64_t k) { return set.from + ((first + k) & 1) * rows.half + ((first + k) >> 1); };
  const A *p0 = source(0), *p1 = source(1), *p2 = source(2), *p3 = source(3);
  const auto zero = hn::Zero(d);
  // Copies, which what is stored cannot change.
  const std::int64_t count = set.count, pitch = set.pitch;
  const std::int64_t* offset = set.offset;
  U* to = set.to;
  for (std::int64_t at = 0; at < n; at += step) {
    const std::int64_t c = overlapping(at, n, step);
    const A* weight = rows.pair_weight.data() + tile.first + c;
    const auto w0 = hn::LoadU(d, weight);
    const auto w1 = hn::LoadU(d, weight + (kTerms > 1 ? rows.pair_pitch : 0));
    const auto w2 = hn::LoadU(d, weight + (kTerms > 2 ? 2 * rows.pair_pitch : 0));
    const auto w3 = hn::LoadU(d, weight + (kTerms > 3 ? 3 * rows.pair_pitch : 0));
    std::int64_t e = c;
    for (std::int64_t i = 0; i < count; ++i, e += pitch) {
      const auto sum = sum_at<kTerms, kUnit, From::zero>(d, zero, w0, w1, w2, w3, p0 + e, p1 + e, p2 + e, p3 + e);
      store(d, sum, to + offset[i] + c);
    }
  }
}

template <bool kUnit, class A, class U>
HWY_INLINE void along_pairs(const Rows<A>& rows, const Tile& tile, const RowSet<A, U>& set) {
  switch (rows.pair_terms) {
    case 1:
      return pairs_of<1, kUnit>(rows, tile, set);
    case 2:
      return pairs_of<2, kUnit>(rows, tile, set);
    case 3:
      return pairs_of<3, kUnit>(rows, tile, set);
    default:
      return pairs_of<4, kUnit>(rows, tile, set);
  }
}

template <class A, class U>
HWY_NOINLINE void along_pairs(const Rows<A>& rows, const Tile& tile, const RowSet<A, U>& set) {
  if (rows.wide.unit) return along_pairs<true>(rows, tile, set);
  along_pairs<false>(rows, tile, set);
}

// The same of columns of one element. Nothing beyond 2n is read.
template <class A, class T, class U>
HWY_INLINE void nearest_pairs(const T* from, std::int64_t stride, std::int64_t n, U* to) {
  const Lanes<A> d;
  const std::int64_t step = lanes(d);
  const T* below = from + stride;
  for (std::int64_t at = 0; at < n; at += step) {
    const std::int64_t c = overlapping(at, n, step), e = 2 * c + step;
    const auto low = hn::Add(load(d, from + 2 * c), load(d, below + 2 * c));
    const auto high = hn::Add(load(d, from + e), load(d, below + e));
    const auto even = hn::Add(hn::Zero(d), hn::ConcatEven(d, high, low));
    store(d, hn::Add(even, hn::ConcatOdd(d, high, low)), to + c);
  }
}

// The elements of one term: kFar, from anywhere; or else from one vector.
template <bool kFar, class D, class L, class I>
HWY_INLINE hn::Vec<D> looked_up(D d, const L* from, const I* lane) {
  if constexpr (kFar) {
    return hn::GatherIndex(d, from, hn::LoadU(hn::Rebind<I, D>(), lane));
  } else {
    return hn::TableLookupLanes(hn::LoadU(d, from), hn::SetTableIndices(d, lane));
  }
}

// What a term adds: nothing where its weight is 0, whatever stands there.
template <bool kFar, class D, class L, class I, class V>
HWY_INLINE V lookup_term(D d, const L* from, const I* lane, V weight) {
  const auto product = hn::Mul(looked_up<kFar>(d, from, lane), weight);
  return hn::IfThenElseZero(hn::Ne(weight, hn::Zero(d)), product);
}

// kTerms in every vector; 0: any number. kOne: of one row.
template <int kTerms, bool kFar, bool kOne, class A, class U>
HWY_INLINE void lookups_of(const Rows<A>& rows, const Tile& tile, const RowSet<A, U>& set) {
  const Lanes<A> d;
  const std::int64_t step = lanes(d);
  const std::int64_t begin = tile.first * rows.pixel;
  const std::int64_t n = tile.last * rows.pixel - begin;
  // Copies, which what is stored cannot change.
  const std::int64_t count = kOne ? 1 : set.count, pitch = set.pitch;
  const std::int64_t* offset = set.offset;
  U* to = kOne ? set.to + offset[0] : set.to;
  std::int64_t k = begin / step * rows.lookup_terms;
  const std::int64_t* base = rows.lookup_base.data();
  const auto* lane = rows.lookup_lane.data();
  const A* weight = rows.lookup_weight.data();
  for (std::int64_t at = 0; at < n; at += step, k += rows.lookup_terms) {
    const std::int64_t c = overlapping(at, n, step);
    const A* from = set.from - tile.low * rows.pixel;
    const auto w0 = hn::LoadU(d, weight + k * step);
    const auto w1 = kTerms == 2 ? hn::LoadU(d, weight + (k + 1) * step) : w0;
    for (std::int64_t i = 0; i < count; ++i, from += pitch) {
      auto sum = hn::Zero(d);
      if constexpr (kTerms == 0) {
        for (std::int64_t e = k; e < k + rows.lookup_terms; ++e) {
          const auto w = hn::LoadU(d, weight + e * step);
          sum = hn::Add(sum, lookup_term<kFar>(d, from + base[e], lane + e * step, w));
        }
      } else {
        sum = hn::Add(sum, lookup_term<kFar>(d, from + base[k], lane + k * step, w0));
        if constexpr (kTerms == 2) {
          sum = hn::Add(sum, lookup_term<kFar>(d, from + base[k + 1], lane + (k + 1) * step, w1));
        }
      }
      store(d, sum, kOne ? to + c : to + offset[i] + c);
    }
  }
}

template <bool kFar, class A, class U>
HWY_NOINLINE void along_lookups(const Rows<A>& rows, const Tile& tile, const RowSet<A, U>& set) {
  if (rows.lookup_terms == 1) return lookups_of<1, kFar, false>(rows, tile, set);
  if (rows.lookup_terms == 2 && set.count == 1) return lookups_of<2, kFar, true>(rows, tile, set);
  if (rows.lookup_terms == 2) return lookups_of<2, kFar, false>(rows, tile, set);
  lookups_of<0, kFar, false>(rows, tile, set);
}

// Movement along one row: one term of weight 1 each, whose bits are kept.
template <bool kFar, class A, class L>
HWY_NOINLINE void move_lookups(const Rows<A>& rows, const Tile& tile, const L* from, L* to) {
  const Lanes<L> d;
  const std::int64_t begin = tile.first * rows.pixel;
  const std::int64_t n = tile.last * rows.pixel - begin;
  from -= tile.low * rows.pixel;
  std::int64_t k = begin / lanes(d);
  for (std::int64_t i = 0; i < n; i += lanes(d), ++k) {
    const L* table = from + rows.lookup_base[static_cast<std::size_t>(k)];
    hn::StoreU(looked_up<kFar>(d, table, rows.lookup_lane.data() + k * lanes(d)), d, to + overlapping(i, n, lanes(d)));
  }
}

#endif

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BP_OPS_RESAMPLE_CPU_ALONG_INL_H
