// SPDX-License-Identifier: Apache-2.0
// Weighted sums of rows on vectors. Compiled once for each instruction set.
//
// A sum starts at +0. That matters only for the sign of a zero, which in turn matters only in what is stored: a zero of
// either sign, times any weight, changes no later sum that starts at +0. So only the last sums start there, and the
// ones before them spare the addition.
//
// Weights and pointers are plain variables, four of each, since compilers keep those in registers.

#if defined(BP_OPS_RESAMPLE_CPU_SUMS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BP_OPS_RESAMPLE_CPU_SUMS_INL_H
#undef BP_OPS_RESAMPLE_CPU_SUMS_INL_H
#else
#define BP_OPS_RESAMPLE_CPU_SUMS_INL_H
#endif

#include "backends/cpu/runs-inl.h"
#include "ops/resample/cpu_rows.h"

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

// Whether vectors that cover n elements from p on end before `end`. Scratch, with room beyond its rows, has no end.
template <class T>
HWY_INLINE bool may_read_beyond_of(const T* p, std::int64_t n, const T* end) {
  const std::int64_t step = lanes(Lanes<Acc<T>>());
  return end == nullptr || (n + step - 1) / step * step <= end - p;
}

// Rows to be added: row k begins at base + index[k] * stride.
template <class A, class T>
struct Terms {
  const T* base;
  std::int64_t stride;
  const std::int64_t* index;
  const A* weight;
  std::int64_t count;
  bool unit;     // every weight is 1
  const T* end;  // of what may be read; null: rows in scratch

  HWY_INLINE const T* row(std::int64_t k) const { return base + index[k] * stride; }
  HWY_INLINE Terms part(std::int64_t first, std::int64_t n) const {
    return {base, stride, index + first, weight + first, n, unit, end};
  }
  HWY_INLINE bool may_read_beyond(std::int64_t n) const {
    return count == 0 || may_read_beyond_of(row(stride < 0 ? 0 : count - 1), n, end);
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
  // (Not in one instruction, even where `before` is zero: a product that is too small for its type would be -0.)
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

// ---- Rows of tensors -------------------------------------------------------------------------------------

// n elements of a row of the input as accumulators. Of what follows them, up to `end`, nothing changes.
template <class T, class A>
HWY_INLINE void import_row(const Rows<A>& rows, const T* from, const T* end, std::int64_t n, A* to) {
  if (rows.in_contiguous) return import_packed(from, n, end - from, to);
  if (rows.pixel == 1) return import_run(from, rows.in_column_stride, n, n, to);
  for (; n > 0; n -= rows.pixel, from += rows.in_column_stride, to += rows.pixel) {
    import_run(from, rows.in_pixel_stride, rows.pixel, rows.pixel, to);
  }
}

// n elements of a row of the output.
template <class T, class L, class A>
HWY_INLINE void export_row(const Rows<A>& rows, const L* from, std::int64_t n, T* to) {
  if (rows.out_contiguous)
    return export_packed(from, to, n, rows.past_cache && (rows.out_follows || is_long_run(n, sizeof(T))));
  if (rows.pixel == 1) return export_run(from, to, rows.out_column_stride, n, false);
  for (; n > 0; n -= rows.pixel, from += rows.pixel, to += rows.out_column_stride) {
    export_run(from, to, rows.out_pixel_stride, rows.pixel, false);
  }
}

// Whether rows of the output, and columns of several elements, are whole lines that follow each other.
template <class T, class A>
HWY_INLINE bool writes_lines(const Rows<A>& rows, const T* out) {
  constexpr std::int64_t kLine = 64;
  const std::int64_t unit = rows.along == Along::pixels ? rows.pixel : rows.out_columns;
  return rows.out_follows && reinterpret_cast<std::uintptr_t>(out) % kLine == 0 &&
         unit * static_cast<std::int64_t>(sizeof(T)) % kLine == 0;
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

// The sum of kTerms rows of scratch memory, n elements, as elements of the output. A vector beyond n is read.
template <int kTerms, class A, class T>
HWY_INLINE void export_sum(const Terms<A, A>& terms, std::int64_t n, bool past_cache, T* to) {
  const Lanes<A> d;
  const A* p0 = terms.row(0);
  const A* p1 = terms.row(kTerms > 1 ? 1 : 0);
  const A* p2 = terms.row(kTerms > 2 ? 2 : 0);
  const A* p3 = terms.row(kTerms > 3 ? 3 : 0);
  const auto w0 = hn::Set(d, terms.weight[0]);
  const auto w1 = hn::Set(d, terms.weight[kTerms > 1 ? 1 : 0]);
  const auto w2 = hn::Set(d, terms.weight[kTerms > 2 ? 2 : 0]);
  const auto w3 = hn::Set(d, terms.weight[kTerms > 3 ? 3 : 0]);
  const auto sum = [&](std::int64_t c) HWY_ATTR {
    return sum_at<kTerms, false, From::zero>(d, hn::Zero(d), w0, w1, w2, w3, p0 + c, p1 + c, p2 + c, p3 + c);
  };
  export_each<A>(sum, to, n, past_cache);
}

template <class A, class T>
HWY_NOINLINE void export_sum(const Terms<A, A>& terms, std::int64_t n, bool past_cache, T* to) {
  switch (terms.count) {
    case 1:
      return export_sum<1>(terms, n, past_cache, to);
    case 2:
      return export_sum<2>(terms, n, past_cache, to);
    case 3:
      return export_sum<3>(terms, n, past_cache, to);
    default:
      return export_sum<4>(terms, n, past_cache, to);
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
  const Terms<A, A> one{from, 0, &first, &weight, 1, false, nullptr};
  add_few<1, false, From::before, false>(one, n, true, Row<A>{to, nullptr});
}

// n elements of the sum of any number of rows, four at a time: that many streams a processor follows well. From +0, or
// from what is there.
template <class A, class T>
HWY_NOINLINE void add_many(const Terms<A, T>& terms, std::int64_t n, bool may_read_beyond, bool from_before, A* to) {
  constexpr std::int64_t kFew = 4;
  const Row<A> row{to, nullptr};
  if (terms.count == 0 && !from_before) return clear_row(n, to);
  for (std::int64_t k = 0; k < terms.count; k += kFew) {
    const Terms<A, T> few = terms.part(k, std::min(kFew, terms.count - k));
    if (k > 0 || from_before) {
      add_few<false, From::before, false>(few, n, may_read_beyond, row);
    } else {
      add_few<false, From::zero, false>(few, n, may_read_beyond, row);
    }
  }
}

// kRows rows from the k-th on for add_to_both. Those that come after several are asked for: two pages ahead at least
// for the nearest cache, and four for the second, where those are not the next ones.
template <int kRows, class A, class T>
HWY_INLINE void add_some_to_both(const Terms<A, T>& terms, std::int64_t k, const A* next_weight, std::int64_t n, A* to,
                                 A* next) {
  const Lanes<A> d;
  const T* p0 = terms.row(k);
  const T* p1 = terms.row(kRows > 1 ? k + 1 : k);
  const T* p2 = terms.row(kRows > 2 ? k + 2 : k);
  const T* p3 = terms.row(kRows > 3 ? k + 3 : k);
  const A *w = terms.weight + k, *x = next_weight + k;
  const auto w0 = hn::Set(d, w[0]), x0 = hn::Set(d, x[0]);
  const auto w1 = hn::Set(d, w[kRows > 1 ? 1 : 0]), x1 = hn::Set(d, x[kRows > 1 ? 1 : 0]);
  const auto w2 = hn::Set(d, w[kRows > 2 ? 2 : 0]), x2 = hn::Set(d, x[kRows > 2 ? 2 : 0]);
  const auto w3 = hn::Set(d, w[kRows > 3 ? 3 : 0]), x3 = hn::Set(d, x[kRows > 3 ? 3 : 0]);
  constexpr std::int64_t kPages = 8192 / sizeof(T), kLine = 64 / sizeof(T);
  const std::int64_t group = kRows * terms.stride;
  const std::int64_t near = std::abs(group) < kPages ? 2 * group : group;
  // (Broadcast rows are one.)
  const bool has_far = group != 0 && std::abs(group) < 2 * kPages;
  const std::int64_t far = has_far ? (2 * kPages / std::abs(group) + 1) * group : 0;
  const auto ask = [&](std::int64_t c) {
    for (const T* p : {p0, p1, p2, p3}) {
      __builtin_prefetch(p + near + c);
      if (has_far) __builtin_prefetch(p + far + c, 0, 2);
    }
  };
  for (std::int64_t c = 0; c < n; c += lanes(d)) {
    if (kRows > 1 && c % kLine == 0) ask(c);
    auto sum = hn::LoadU(d, to + c), begun = hn::LoadU(d, next + c);
    const auto v0 = load(d, p0 + c);
    const auto v1 = kRows > 1 ? load(d, p1 + c) : v0;
    const auto v2 = kRows > 2 ? load(d, p2 + c) : v0;
    const auto v3 = kRows > 3 ? load(d, p3 + c) : v0;
    sum = sum_of<kRows, false, From::before>(sum, w0, w1, w2, w3, v0, v1, v2, v3);
    begun = sum_of<kRows, false, From::before>(begun, x0, x1, x2, x3, v0, v1, v2, v3);
    hn::StoreU(sum, d, to + c);
    hn::StoreU(begun, d, next + c);
  }
}

// Two sums that share rows: `to` goes on from what is there, `next` begins at +0 with weights of its own. The rows are
// read once; up to a vector beyond n is read and written.
template <class A, class T>
HWY_NOINLINE void add_to_both(const Terms<A, T>& terms, const A* next_weight, std::int64_t n, A* to, A* next) {
  constexpr std::int64_t kFew = 4;
  clear_row(n, next);
  std::int64_t k = 0;
  for (; k + kFew <= terms.count; k += kFew) add_some_to_both<kFew>(terms, k, next_weight, n, to, next);
  for (; k < terms.count; ++k) add_some_to_both<1>(terms, k, next_weight, n, to, next);
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
    add_many(terms, n, may_read_beyond, false, to);
  } else {
    clear_row(n, to);
    for (std::int64_t k = 0; k < terms.count; k += block) {
      add_many(terms.part(k, std::min(block, terms.count - k)), n, may_read_beyond, false, spare + pitch);
      add_row(A{1}, spare + pitch, n, to);
    }
  }
  if (row.odd != nullptr) take_apart(to, n, row);
}

// A run of like sums: each of `count` rows is the sum of kTerms rows side by side, `shift` further on than those of the
// row before it, with the same weights. kSlide: four terms and a shift of two, so that what two rows were loaded for
// serves the next sum too. Rows that follow each other are asked for ahead, as many as are read here, in the order of
// memory: in several rows side by side the processor does not see by itself what comes next. A vector beyond n is read,
// two are written.
template <int kTerms, bool kUnit, bool kSlide, bool kApart, class A, class T>
HWY_INLINE void add_run(const T* from, std::int64_t stride, std::int64_t shift, const A* weight, std::int64_t count,
                        std::int64_t n, bool ask_ahead, A* to, std::int64_t pitch, std::int64_t odd) {
  const Lanes<A> d;
  const std::int64_t step = lanes(d);
  const auto w0 = hn::Set(d, weight[0]);
  const auto w1 = hn::Set(d, weight[kTerms > 1 ? 1 : 0]);
  const auto w2 = hn::Set(d, weight[kTerms > 2 ? 2 : 0]);
  const auto w3 = hn::Set(d, weight[kTerms > 3 ? 3 : 0]);
  const auto zero = hn::Zero(d);
  const std::int64_t lines = shift * 2 * step * static_cast<std::int64_t>(sizeof(T));
  const char* ahead = reinterpret_cast<const char*>(from + ((count * shift + kTerms - shift) * stride));
  for (std::int64_t c = 0; c < n; c += 2 * step) {
    // The second vector may lie wholly beyond the end; then it is the first once more.
    const std::int64_t second = c + step < n ? step : 0;
    const T* p = from + c;
    A* q = to + (kApart ? c / 2 : c);
    auto v0 = zero, v1 = zero, u0 = zero, u1 = zero;
    if constexpr (kSlide) {
      v0 = load(d, p), v1 = load(d, p + stride);
      u0 = load(d, p + second), u1 = load(d, p + second + stride);
      p += 2 * stride;
    }
    for (std::int64_t i = 0; i < count; ++i, p += shift * stride, q += pitch) {
      if (ask_ahead) {
        prefetch(ahead, lines);
        ahead += lines;
      }
      auto low = zero, high = zero;
      if constexpr (kSlide) {
        const auto v2 = load(d, p), v3 = load(d, p + stride);
        const auto u2 = load(d, p + second), u3 = load(d, p + second + stride);
        low = sum_of<4, kUnit, From::nothing>(zero, w0, w1, w2, w3, v0, v1, v2, v3);
        high = sum_of<4, kUnit, From::nothing>(zero, w0, w1, w2, w3, u0, u1, u2, u3);
        v0 = v2, v1 = v3, u0 = u2, u1 = u3;
      } else {
        const T *p1 = p + stride, *p2 = p1 + stride, *p3 = p2 + stride;
        low = sum_at<kTerms, kUnit, From::nothing>(d, zero, w0, w1, w2, w3, p, p1, p2, p3);
        high = sum_at<kTerms, kUnit, From::nothing>(d, zero, w0, w1, w2, w3, p + second, p1 + second, p2 + second,
                                                    p3 + second);
      }
      if constexpr (kApart) {
        store_apart(d, low, high, q, q + odd, 0);
      } else {
        hn::StoreU(low, d, q);
        hn::StoreU(high, d, q + second);
      }
    }
  }
}

template <bool kUnit, bool kApart, class A, class T>
HWY_INLINE void add_run(const T* from, std::int64_t stride, std::int64_t shift, const A* weight, std::int64_t terms,
                        std::int64_t count, std::int64_t n, bool ask_ahead, A* to, std::int64_t pitch,
                        std::int64_t odd) {
  switch (terms) {
    case 1:
      return add_run<1, kUnit, false, kApart>(from, stride, shift, weight, count, n, ask_ahead, to, pitch, odd);
    case 2:
      return add_run<2, kUnit, false, kApart>(from, stride, shift, weight, count, n, ask_ahead, to, pitch, odd);
    case 3:
      return add_run<3, kUnit, false, kApart>(from, stride, shift, weight, count, n, ask_ahead, to, pitch, odd);
    default:
      if (shift != 2)
        return add_run<4, kUnit, false, kApart>(from, stride, shift, weight, count, n, ask_ahead, to, pitch, odd);
      return add_run<4, kUnit, true, kApart>(from, stride, shift, weight, count, n, ask_ahead, to, pitch, odd);
  }
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BP_OPS_RESAMPLE_CPU_SUMS_INL_H
