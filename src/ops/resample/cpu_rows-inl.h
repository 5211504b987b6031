// SPDX-License-Identifier: Apache-2.0
// Weighted sums of rows, and sums along rows, on vectors. Compiled once for each instruction set.
//
// A sum starts at +0. That matters only for the sign of a zero, which in turn matters only in what is stored: a zero of
// either sign, times any weight, changes no later sum that starts at +0. So only the last sums start there, and the
// ones before them spare the addition.
//
// Weights and pointers are plain variables, four of each, since compilers keep those in registers.

#if defined(BP_OPS_RESAMPLE_CPU_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BP_OPS_RESAMPLE_CPU_ROWS_INL_H
#undef BP_OPS_RESAMPLE_CPU_ROWS_INL_H
#else
#define BP_OPS_RESAMPLE_CPU_ROWS_INL_H
#endif

#include "backends/cpu/simd-inl.h"
#include "ops/resample/cpu_rows.h"

#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

// Rows to be added: row k begins at base + index[k] * stride.
template <class A, class T>
struct Terms {
  const T* base;
  std::int64_t stride;
  const std::int64_t* index;
  const A* weight;
  std::int64_t count;
  bool unit;  // every weight is 1

  HWY_INLINE const T* row(std::int64_t k) const { return base + index[k] * stride; }
  HWY_INLINE Terms part(std::int64_t first, std::int64_t n) const {
    return {base, stride, index + first, weight + first, n, unit};
  }
};

// Where a row of sums goes: as it is, or its even and odd elements apart.
template <class A>
struct Row {
  A* to;
  A* odd;  // null: not apart
};

// What a sum begins with.
enum class From { nothing, zero, before };

// ---- One vector ------------------------------------------------------------------------------------------

template <bool kUnit, class V>
HWY_INLINE V times(V w, V v) {
  if constexpr (kUnit) {
    return v;
  } else {
    return hn::Mul(w, v);
  }
}

// The sum of kTerms of four vectors.
template <int kTerms, bool kUnit, From kFrom, class V>
HWY_INLINE V sum_of(V before, V w0, V w1, V w2, V w3, V v0, V v1, V v2, V v3) {
  V sum = times<kUnit>(w0, v0);
  if constexpr (kFrom != From::nothing) sum = hn::Add(before, sum);
  if constexpr (kTerms > 1) sum = hn::Add(sum, times<kUnit>(w1, v1));
  if constexpr (kTerms > 2) sum = hn::Add(sum, times<kUnit>(w2, v2));
  if constexpr (kTerms > 3) sum = hn::Add(sum, times<kUnit>(w3, v3));
  return sum;
}

template <int kTerms, bool kUnit, From kFrom, class D, class V, class T>
HWY_INLINE V sum_at(D d, V before, V w0, V w1, V w2, V w3, const T* p0, const T* p1, const T* p2, const T* p3) {
  const V v0 = load(d, p0);
  const V v1 = kTerms > 1 ? load(d, p1) : v0;
  const V v2 = kTerms > 2 ? load(d, p2) : v0;
  const V v3 = kTerms > 3 ? load(d, p3) : v0;
  return sum_of<kTerms, kUnit, kFrom>(before, w0, w1, w2, w3, v0, v1, v2, v3);
}

// Stores two vectors, from element c of a row on, even and odd elements apart.
template <class D, class V, class A>
HWY_INLINE void store_apart(D d, V low, V high, A* even, A* odd, std::int64_t c) {
#if HWY_TARGET == HWY_SCALAR
  (void)d, (void)low, (void)high, (void)even, (void)odd, (void)c;  // one lane has no use for it
#else
  hn::StoreU(hn::ConcatEven(d, high, low), d, even + c / 2);
  hn::StoreU(hn::ConcatOdd(d, high, low), d, odd + c / 2);
#endif
}

// Reads one element of each line of n elements, in the order of memory: the processor sees what comes next in a single
// stream, but not in several rows side by side.
template <class T>
HWY_INLINE void touch(const T* p, std::int64_t n) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  const auto* first = reinterpret_cast<const volatile char*>(p);
  for (std::int64_t i = 0; i < n; i += kLine) (void)first[i * static_cast<std::int64_t>(sizeof(T))];
}

// ---- Sums of rows ----------------------------------------------------------------------------------------

// The last elements of a row that no whole vector may read: those of the tensor.
template <class A, class T>
HWY_NOINLINE void add_end(const Terms<A, T>& terms, std::int64_t first, std::int64_t n, bool from_before, Row<A> row) {
  for (std::int64_t c = first; c < n; ++c) {
    A* to = row.odd == nullptr ? row.to + c : (c % 2 == 0 ? row.to : row.odd) + c / 2;
    A sum = from_before ? *to : 0;
    for (std::int64_t k = 0; k < terms.count; ++k) {
      const A product = terms.weight[k] * static_cast<A>(widen(terms.row(k)[c]));
      sum += product;
    }
    *to = sum;
  }
}

// n elements of the sum of kTerms rows. Of the rows a vector beyond n is read where that is allowed; up to two vectors
// beyond n are written.
template <int kTerms, bool kUnit, From kFrom, bool kApart, class A, class T>
HWY_INLINE void add_few(const Terms<A, T>& terms, std::int64_t n, bool may_read_beyond, Row<A> row) {
  const Lanes<A> d;
  const std::int64_t step = lanes(d);
  const T* p0 = terms.row(0);
  const T* p1 = terms.row(kTerms > 1 ? 1 : 0);
  const T* p2 = terms.row(kTerms > 2 ? 2 : 0);
  const T* p3 = terms.row(kTerms > 3 ? 3 : 0);
  const auto w0 = hn::Set(d, terms.weight[0]);
  const auto w1 = hn::Set(d, terms.weight[kTerms > 1 ? 1 : 0]);
  const auto w2 = hn::Set(d, terms.weight[kTerms > 2 ? 2 : 0]);
  const auto w3 = hn::Set(d, terms.weight[kTerms > 3 ? 3 : 0]);
  const auto zero = hn::Zero(d);
  const std::int64_t end = may_read_beyond ? n : n / step * step;
  std::int64_t c = 0;
  for (; c + step < end; c += 2 * step) {
    const std::int64_t e = c + step;
    auto low = zero, high = zero;
    if constexpr (kFrom == From::before) low = hn::LoadU(d, row.to + c), high = hn::LoadU(d, row.to + e);
    low = sum_at<kTerms, kUnit, kFrom>(d, low, w0, w1, w2, w3, p0 + c, p1 + c, p2 + c, p3 + c);
    high = sum_at<kTerms, kUnit, kFrom>(d, high, w0, w1, w2, w3, p0 + e, p1 + e, p2 + e, p3 + e);
    if constexpr (kApart) {
      store_apart(d, low, high, row.to, row.odd, c);
    } else {
      hn::StoreU(low, d, row.to + c);
      hn::StoreU(high, d, row.to + e);
    }
  }
  if (c < end) {
    auto low = zero;
    if constexpr (kFrom == From::before) low = hn::LoadU(d, row.to + c);
    low = sum_at<kTerms, kUnit, kFrom>(d, low, w0, w1, w2, w3, p0 + c, p1 + c, p2 + c, p3 + c);
    if constexpr (kApart) {
      store_apart(d, low, zero, row.to, row.odd, c);
    } else {
      hn::StoreU(low, d, row.to + c);
    }
  }
  if (end < n) add_end(terms, end, n, kFrom == From::before, row);
}

template <bool kUnit, From kFrom, bool kApart, class A, class T>
HWY_INLINE void add_few(const Terms<A, T>& terms, std::int64_t n, bool may_read_beyond, Row<A> row) {
  switch (terms.count) {
    case 1:
      return add_few<1, kUnit, kFrom, kApart>(terms, n, may_read_beyond, row);
    case 2:
      return add_few<2, kUnit, kFrom, kApart>(terms, n, may_read_beyond, row);
    case 3:
      return add_few<3, kUnit, kFrom, kApart>(terms, n, may_read_beyond, row);
    default:
      return add_few<4, kUnit, kFrom, kApart>(terms, n, may_read_beyond, row);
  }
}

template <class A>
HWY_INLINE void clear_row(std::int64_t n, A* to) {
  const Lanes<A> d;
  for (std::int64_t c = 0; c < n; c += lanes(d)) hn::StoreU(hn::Zero(d), d, to + c);
}

// to += weight * from, in scratch.
template <class A>
HWY_INLINE void add_row(A weight, const A* from, std::int64_t n, A* to) {
  const std::int64_t first = 0;
  const Terms<A, A> one{from, 0, &first, &weight, 1, false};
  add_few<1, false, From::before, false>(one, n, true, Row<A>{to, nullptr});
}

// n elements of the sum of any number of rows, from +0, four at a time: that many streams a processor follows well.
template <class A, class T>
HWY_NOINLINE void add_many(const Terms<A, T>& terms, std::int64_t n, bool may_read_beyond, A* to) {
  constexpr std::int64_t kFew = 4;
  const Row<A> row{to, nullptr};
  if (terms.count == 0) return clear_row(n, to);
  add_few<false, From::zero, false>(terms.part(0, std::min(kFew, terms.count)), n, may_read_beyond, row);
  for (std::int64_t k = kFew; k < terms.count; k += kFew) {
    add_few<false, From::before, false>(terms.part(k, std::min(kFew, terms.count - k)), n, may_read_beyond, row);
  }
}

// Even and odd elements of a row in scratch apart.
template <class A>
HWY_INLINE void take_apart(const A* from, std::int64_t n, Row<A> row) {
  const Lanes<A> d;
  const std::int64_t step = lanes(d);
  for (std::int64_t c = 0; c < n; c += 2 * step) {
    store_apart(d, hn::LoadU(d, from + c), hn::LoadU(d, from + c + step), row.to, row.odd, c);
  }
}

// n elements of the sum of rows; more than `block` rows are added block by block. `last`: the sums are stored. There
// are two rows of `spare` scratch, `pitch` apart.
template <class A, class T>
HWY_INLINE void sum_rows(const Terms<A, T>& terms, std::int64_t n, bool may_read_beyond, bool last, std::int64_t block,
                         A* spare, std::int64_t pitch, Row<A> row) {
  if (!last && terms.count >= 1 && terms.count <= 4) {
    if (row.odd != nullptr) {
      if (terms.unit) return add_few<true, From::nothing, true>(terms, n, may_read_beyond, row);
      return add_few<false, From::nothing, true>(terms, n, may_read_beyond, row);
    }
    if (terms.unit) return add_few<true, From::nothing, false>(terms, n, may_read_beyond, row);
    return add_few<false, From::nothing, false>(terms, n, may_read_beyond, row);
  }
  A* to = row.odd == nullptr ? row.to : spare;
  if (terms.count <= block) {
    add_many(terms, n, may_read_beyond, to);
  } else {
    clear_row(n, to);
    for (std::int64_t k = 0; k < terms.count; k += block) {
      add_many(terms.part(k, std::min(block, terms.count - k)), n, may_read_beyond, spare + pitch);
      add_row(A{1}, spare + pitch, n, to);
    }
  }
  if (row.odd != nullptr) take_apart(to, n, row);
}

// Steady sums of ten rows: each of four is the sum of four, two further on than the one before it, with the same
// weights. So every row is read once, and all of them as streams.
template <class D, class V, class T>
HWY_INLINE void sum_steady(D d, const T* p, std::int64_t stride, V w0, V w1, V w2, V w3, V& t0, V& t1, V& t2, V& t3) {
  const V zero = hn::Zero(d);
  const V v0 = load(d, p), v1 = load(d, p + stride), v2 = load(d, p + 2 * stride), v3 = load(d, p + 3 * stride);
  t0 = sum_of<4, false, From::nothing>(zero, w0, w1, w2, w3, v0, v1, v2, v3);
  const V v4 = load(d, p + 4 * stride), v5 = load(d, p + 5 * stride);
  t1 = sum_of<4, false, From::nothing>(zero, w0, w1, w2, w3, v2, v3, v4, v5);
  const V v6 = load(d, p + 6 * stride), v7 = load(d, p + 7 * stride);
  t2 = sum_of<4, false, From::nothing>(zero, w0, w1, w2, w3, v4, v5, v6, v7);
  const V v8 = load(d, p + 8 * stride), v9 = load(d, p + 9 * stride);
  t3 = sum_of<4, false, From::nothing>(zero, w0, w1, w2, w3, v6, v7, v8, v9);
}

// n elements of four such rows; up to two vectors beyond n are written, and one is read.
template <bool kApart, class A, class T>
HWY_INLINE void add_steady(const T* from, std::int64_t stride, const A* weight, std::int64_t n, A* to,
                           std::int64_t pitch, std::int64_t odd) {
  const Lanes<A> d;
  const std::int64_t step = lanes(d);
  const auto w0 = hn::Set(d, weight[0]), w1 = hn::Set(d, weight[1]);
  const auto w2 = hn::Set(d, weight[2]), w3 = hn::Set(d, weight[3]);
  auto t0 = w0, t1 = w0, t2 = w0, t3 = w0, u0 = w0, u1 = w0, u2 = w0, u3 = w0;
  for (std::int64_t c = 0; c < n; c += kApart ? 2 * step : step) {
    sum_steady(d, from + c, stride, w0, w1, w2, w3, t0, t1, t2, t3);
    if constexpr (kApart) {
      // The second vector may lie wholly beyond the end; then it is the first once more.
      sum_steady(d, from + (c + step < n ? c + step : c), stride, w0, w1, w2, w3, u0, u1, u2, u3);
      store_apart(d, t0, u0, to, to + odd, c);
      store_apart(d, t1, u1, to + pitch, to + pitch + odd, c);
      store_apart(d, t2, u2, to + 2 * pitch, to + 2 * pitch + odd, c);
      store_apart(d, t3, u3, to + 3 * pitch, to + 3 * pitch + odd, c);
    } else {
      hn::StoreU(t0, d, to + c);
      hn::StoreU(t1, d, to + pitch + c);
      hn::StoreU(t2, d, to + 2 * pitch + c);
      hn::StoreU(t3, d, to + 3 * pitch + c);
    }
  }
}

template <bool kApart, class A, class T>
HWY_INLINE void strip_rows(const T* from, std::int64_t stride, const A* weight, std::int64_t count, std::int64_t n,
                           A* to, std::int64_t pitch, std::int64_t odd) {
  const Lanes<A> d;
  const std::int64_t step = lanes(d);
  const auto w0 = hn::Set(d, weight[0]), w1 = hn::Set(d, weight[1]);
  const auto w2 = hn::Set(d, weight[2]), w3 = hn::Set(d, weight[3]);
  const auto zero = hn::Zero(d);
  for (std::int64_t c = 0; c < n; c += 2 * step) {
    // The second vector may lie wholly beyond the end; then it is the first once more.
    const std::int64_t second = c + step < n ? step : 0;
    const T* p = from + c;
    A* q = to + (kApart ? c / 2 : c);
    auto v0 = load(d, p), v1 = load(d, p + stride);
    auto u0 = load(d, p + second), u1 = load(d, p + second + stride);
    const char* line = reinterpret_cast<const char*>(from + 2 * stride) + 2 * count * c * sizeof(T) + knob(2) * 1024;
    for (std::int64_t i = 0; i < count; ++i, q += pitch) {
      p += 2 * stride;
      if (knob(2)) {
        for (unsigned b = 0; b < 4 * step * sizeof(T); b += 64) hwy::Prefetch(line + b);
        line += 4 * step * sizeof(T);
      }
      const auto v2 = load(d, p), v3 = load(d, p + stride);
      const auto u2 = load(d, p + second), u3 = load(d, p + second + stride);
      const auto low = sum_of<4, false, From::nothing>(zero, w0, w1, w2, w3, v0, v1, v2, v3);
      const auto high = sum_of<4, false, From::nothing>(zero, w0, w1, w2, w3, u0, u1, u2, u3);
      if constexpr (kApart) {
        store_apart(d, low, high, q, q + odd, 0);
      } else {
        hn::StoreU(low, d, q);
        hn::StoreU(high, d, q + second);
      }
      v0 = v2, v1 = v3, u0 = u2, u1 = u3;
    }
  }
}

template <bool kApart, class A, class T>
HWY_INLINE void slide_rows(const T* from, std::int64_t stride, const A* weight, std::int64_t count, std::int64_t n,
                           A* half_sums, A* to, std::int64_t pitch, std::int64_t odd, bool pf) {
  const Lanes<A> d;
  const std::int64_t step = lanes(d);
  const std::int64_t first_two[] = {0, 1};
  add_few<2, false, From::nothing, false>(Terms<A, T>{from, stride, first_two, weight, 2, false}, n, true,
                                          Row<A>{half_sums, nullptr});
  const auto w0 = hn::Set(d, weight[0]), w1 = hn::Set(d, weight[1]);
  const auto w2 = hn::Set(d, weight[2]), w3 = hn::Set(d, weight[3]);
  for (std::int64_t i = 0; i < count; ++i, to += pitch) {
    const T* p = from + (2 * i + 2) * stride;
    const T* q = p + stride;
    for (std::int64_t c = 0; c < n; c += 2 * step) {
      const std::int64_t e = c + step < n ? c + step : c;
      if (pf)
        for (unsigned b = 0; b < 4 * step * sizeof(T); b += 64)
          hwy::Prefetch(reinterpret_cast<const char*>(p + 2 * c) + 4096 + b);
      const auto p0 = load(d, p + c), p1 = load(d, p + e), q0 = load(d, q + c), q1 = load(d, q + e);
      const auto before0 = hn::LoadU(d, half_sums + c), before1 = hn::LoadU(d, half_sums + e);
      const auto low = hn::Add(hn::Add(before0, hn::Mul(w2, p0)), hn::Mul(w3, q0));
      const auto high = hn::Add(hn::Add(before1, hn::Mul(w2, p1)), hn::Mul(w3, q1));
      hn::StoreU(hn::Add(hn::Mul(w0, p0), hn::Mul(w1, q0)), d, half_sums + c);
      hn::StoreU(hn::Add(hn::Mul(w0, p1), hn::Mul(w1, q1)), d, half_sums + e);
      if constexpr (kApart) {
        store_apart(d, low, high, to, to + odd, c);
      } else {
        hn::StoreU(low, d, to + c);
        hn::StoreU(high, d, to + e);
      }
    }
  }
}
// ---- Along rows: from +0, since these sums are stored ----------------------------------------------------

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
    const std::int64_t steady = std::min(wide.steady[static_cast<std::size_t>(r)], tile.last - r);
    if (steady > 1) {
      slide_columns(from + wide.index[k] * pixel, weight, steady, pixel, to);
      r += steady;
      to += steady * pixel;
      continue;
    }
    const Terms<A, A> terms{from, pixel, wide.index + k, weight, wide.terms(r), wide.unit};
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
template <class A, class U>
void along_lookups(const Rows<A>&, const Tile&, const RowSet<A, U>&) {}
template <class A>
void transpose(const A*, std::int64_t, std::int64_t, std::int64_t, A*, std::int64_t) {}

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

// One term, which every lane has.
template <class A, class U>
HWY_INLINE void lookup_one(const Rows<A>& rows, std::int64_t k, const RowSet<A, U>& set, const A* from,
                           std::int64_t c) {
  const Lanes<A> d;
  const auto lane = hn::SetTableIndices(d, rows.lookup_lane.data() + k * lanes(d));
  const auto weight = hn::LoadU(d, rows.lookup_weight.data() + k * lanes(d));
  from += rows.lookup_base[static_cast<std::size_t>(k)];
  for (std::int64_t i = 0; i < set.count; ++i, from += set.pitch) {
    const auto product = hn::Mul(hn::TableLookupLanes(hn::LoadU(d, from), lane), weight);
    store(d, hn::Add(hn::Zero(d), product), set.to + set.offset[i] + c);
  }
}

template <class A, class U>
HWY_NOINLINE void along_lookups(const Rows<A>& rows, const Tile& tile, const RowSet<A, U>& set) {
  const Lanes<A> d;
  const std::int64_t step = lanes(d);
  const A* from = set.from - tile.low * rows.pixel;
  const std::int64_t begin = tile.first * rows.pixel;
  const std::int64_t n = tile.last * rows.pixel - begin;
  const std::int64_t* terms = rows.lookup_begin.data() + begin / step;
  for (std::int64_t at = 0; at < n; at += step, ++terms) {
    const std::int64_t c = overlapping(at, n, step);
    if (terms[1] - terms[0] == 1 && rows.lookup_full[static_cast<std::size_t>(terms[0])] != 0) {
      lookup_one(rows, terms[0], set, from, c);
      continue;
    }
    for (std::int64_t i = 0; i < set.count; ++i) {
      auto sum = hn::Zero(d);
      for (std::int64_t k = terms[0]; k < terms[1]; ++k) {
        const auto lane = hn::SetTableIndices(d, rows.lookup_lane.data() + k * step);
        const A* table = from + i * set.pitch + rows.lookup_base[static_cast<std::size_t>(k)];
        const auto weight = hn::LoadU(d, rows.lookup_weight.data() + k * step);
        auto product = hn::Mul(hn::TableLookupLanes(hn::LoadU(d, table), lane), weight);
        if (rows.lookup_full[static_cast<std::size_t>(k)] == 0) {
          product = hn::IfThenElseZero(hn::Ne(weight, hn::Zero(d)), product);
        }
        sum = hn::Add(sum, product);
      }
      store(d, sum, set.to + set.offset[i] + c);
    }
  }
}

// to[c * to_pitch + r] = from[r * from_pitch + c], in blocks of one 128-bit vector each way; the last ones overlap
// those before them, so that nothing beyond is read or written.
template <class A>
HWY_NOINLINE void transpose(const A* from, std::int64_t from_pitch, std::int64_t height, std::int64_t width, A* to,
                            std::int64_t to_pitch) {
  constexpr std::int64_t kSide = 16 / sizeof(A);
  if (height < kSide || width < kSide) {
    for (std::int64_t r = 0; r < height; ++r) {
      for (std::int64_t c = 0; c < width; ++c) to[c * to_pitch + r] = from[r * from_pitch + c];
    }
    return;
  }
  const hn::CappedTag<A, kSide> d;
  for (std::int64_t r0 = 0; r0 < height; r0 += kSide) {
    const std::int64_t r = std::min(r0, height - kSide);
    for (std::int64_t c0 = 0; c0 < width; c0 += kSide) {
      const std::int64_t c = std::min(c0, width - kSide);
      const A* in = from + r * from_pitch + c;
      A* out = to + c * to_pitch + r;
      const auto a = hn::LoadU(d, in), b = hn::LoadU(d, in + from_pitch);
      if constexpr (kSide == 2) {
        hn::StoreU(hn::InterleaveLower(d, a, b), d, out);
        hn::StoreU(hn::InterleaveUpper(d, a, b), d, out + to_pitch);
      } else {
        const auto e = hn::LoadU(d, in + 2 * from_pitch), f = hn::LoadU(d, in + 3 * from_pitch);
        const auto ae_low = hn::InterleaveLower(d, a, e), bf_low = hn::InterleaveLower(d, b, f);
        const auto ae_high = hn::InterleaveUpper(d, a, e), bf_high = hn::InterleaveUpper(d, b, f);
        hn::StoreU(hn::InterleaveLower(d, ae_low, bf_low), d, out);
        hn::StoreU(hn::InterleaveUpper(d, ae_low, bf_low), d, out + to_pitch);
        hn::StoreU(hn::InterleaveLower(d, ae_high, bf_high), d, out + 2 * to_pitch);
        hn::StoreU(hn::InterleaveUpper(d, ae_high, bf_high), d, out + 3 * to_pitch);
      }
    }
  }
}

#endif

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BP_OPS_RESAMPLE_CPU_ROWS_INL_H
