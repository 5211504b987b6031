// SPDX-License-Identifier: Apache-2.0
// Runs of elements in other strides, moved by vectors: backwards, every second one, or any. Compiled once for each
// instruction set.

#if defined(BP_BACKENDS_CPU_RUNS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef BP_BACKENDS_CPU_RUNS_INL_H
#undef BP_BACKENDS_CPU_RUNS_INL_H
#else
#define BP_BACKENDS_CPU_RUNS_INL_H
#endif

#include "backends/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

// ---- What a run is made of -------------------------------------------------------------------------------
// one(i) is element i of the run and vector(d, i) are those from i on. Only elements that the run moves are read, and
// those between them. Vectors are for runs of lanes(d) + kSpare elements and more.

template <class T>
struct Straight {
  static constexpr std::int64_t kSpare = 0;
  const T* from;
  [[nodiscard]] HWY_INLINE T one(std::int64_t i) const { return from[i]; }
  template <class D>
  HWY_INLINE auto vector(D d, std::int64_t i) const {
    return hn::LoadU(d, from + i);
  }
};

template <class T>
struct Reversed {
  static constexpr std::int64_t kSpare = 0;
  const T* from;
  [[nodiscard]] HWY_INLINE T one(std::int64_t i) const { return from[-i]; }
#if HWY_TARGET != HWY_SCALAR
  template <class D>
  HWY_INLINE auto vector(D d, std::int64_t i) const {
    const auto v = hn::LoadU(d, from - i - (lanes(d) - 1));
    if constexpr (sizeof(T) == 1) {
      const hn::Repartition<std::uint16_t, D> pairs;
      const auto reversed = hn::Reverse(pairs, hn::BitCast(pairs, v));
      return hn::BitCast(d, hn::Or(hn::ShiftLeft<8>(reversed), hn::ShiftRight<8>(reversed)));
    } else {
      return hn::Reverse(d, v);
    }
  }
#endif
};

// Every second element.
template <class T>
struct Thinned {
  static constexpr std::int64_t kSpare = 1;
  const T* from;
  [[nodiscard]] HWY_INLINE T one(std::int64_t i) const { return from[2 * i]; }
#if HWY_TARGET != HWY_SCALAR
  template <class D>
  HWY_INLINE auto vector(D d, std::int64_t i) const {
    // Behind the last element of a run nothing may be read, nor before its first.
    const T* p = from + 2 * i;
    if (i == 0) return hn::ConcatEven(d, hn::LoadU(d, p + lanes(d)), hn::LoadU(d, p));
    return hn::ConcatOdd(d, hn::LoadU(d, p + lanes(d) - 1), hn::LoadU(d, p - 1));
  }
#endif
};

// The bytes of a vector: the widest, and from each the next narrower; 0 is one element at a time, which is all that the
// baseline knows.
inline constexpr std::size_t kWidest = HWY_TARGET == HWY_SCALAR ? 0 : HWY_MIN(64, HWY_MAX_BYTES);
template <class T, std::size_t kBytes>
inline constexpr std::size_t kNarrower = kBytes > HWY_MAX(8, 2 * sizeof(T)) ? kBytes / 2 : 0;

template <std::size_t kBytes, class T, class Source>
HWY_INLINE bool fits(std::int64_t n) {
  if constexpr (kBytes == 0) {
    return true;
  } else {
    return n >= lanes(hn::CappedTag<T, kBytes / sizeof(T)>()) + Source::kSpare;
  }
}

// Elements [begin, end) of a run that fits. The last vector may overlap the one before it.
template <std::size_t kBytes, class T, class Source>
HWY_INLINE void put_fitting(T* to, const Source& source, std::int64_t begin, std::int64_t end) {
  std::int64_t i = begin;
  if constexpr (kBytes == 0) {
    for (; i < end; ++i) to[i - begin] = source.one(i);
  } else {
    const hn::CappedTag<T, kBytes / sizeof(T)> d;
    const std::int64_t step = lanes(d);
    for (; i + step <= end; i += step) {
      hn::StoreU(source.vector(d, i), d, to + (i - begin));
      HWY_FENCE;  // or the compiler makes a slow memset of a short loop over zeros
    }
    if (i < end) hn::StoreU(source.vector(d, end - step), d, to + (end - step - begin));
  }
}

// The same of any run, with the widest vectors that fit.
template <std::size_t kBytes = kWidest, class T, class Source>
HWY_INLINE void put(T* to, const Source& source, std::int64_t begin, std::int64_t end) {
  if (fits<kBytes, T, Source>(end - begin)) return put_fitting<kBytes>(to, source, begin, end);
  if constexpr (kBytes > 0) put<kNarrower<T, kBytes>>(to, source, begin, end);
}

// ---- To and from packed runs -----------------------------------------------------------------------------

// What moves an element whatever it means.
template <class T>
using Word = std::conditional_t<sizeof(T) == 1, std::uint8_t,
                                std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                                   std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;

// to[i] = from[i * stride].
template <class T>
HWY_NOINLINE void pack_run(const T* from, std::int64_t stride, std::int64_t n, T* to) {
  const auto* words = reinterpret_cast<const Word<T>*>(from);
  auto* packed = reinterpret_cast<Word<T>*>(to);
  if (stride == 1) {
    put(packed, Straight<Word<T>>{words}, 0, n);
  } else if (stride == -1) {
    put(packed, Reversed<Word<T>>{words}, 0, n);
  } else if (stride == 2) {
    put(packed, Thinned<Word<T>>{words}, 0, n);
  } else {
    for (std::int64_t i = 0; i < n; ++i) packed[i] = words[i * stride];
  }
}

// to[i * stride] = from[i].
template <class T>
HWY_NOINLINE void unpack_run(const T* from, std::int64_t n, T* to, std::int64_t stride) {
  const auto* packed = reinterpret_cast<const Word<T>*>(from);
  auto* words = reinterpret_cast<Word<T>*>(to);
  if (stride == 1) {
    put(words, Straight<Word<T>>{packed}, 0, n);
  } else if (stride == -1) {
    put(words - (n - 1), Reversed<Word<T>>{packed + (n - 1)}, 0, n);
  } else {
    for (std::int64_t i = 0; i < n; ++i) words[i * stride] = packed[i];
  }
}

// Runs in other strides are packed so many elements at a time, on the stack.
inline constexpr std::int64_t kPackedAtOnce = 256;

// n elements, `stride` apart, as accumulators in scratch. Of a contiguous run `readable` >= n elements may be read, and
// up to a vector beyond n may be written.
template <class T>
HWY_INLINE void import_run(const T* from, std::int64_t stride, std::int64_t n, std::int64_t readable, Acc<T>* to) {
  if (stride == 1) return import_packed(from, n, readable, to);
  alignas(64) T packed[kPackedAtOnce];
  for (std::int64_t i = 0; i < n; i += kPackedAtOnce) {
    const std::int64_t count = std::min(kPackedAtOnce, n - i);
    pack_run(from + i * stride, stride, count, packed);
    import_packed(packed, count, kPackedAtOnce, to + i);
  }
}

// n lanes as elements, `stride` apart; past the cache contiguous ones are streamed.
template <class T, class L>
HWY_INLINE void export_run(const L* from, T* to, std::int64_t stride, std::int64_t n, bool past_cache) {
  if (stride == 1) return export_packed(from, to, n, past_cache);
  alignas(64) T packed[kPackedAtOnce];
  for (std::int64_t i = 0; i < n; i += kPackedAtOnce) {
    const std::int64_t count = std::min(kPackedAtOnce, n - i);
    export_packed(from + i, packed, count, false);
    unpack_run(packed, count, to + i * stride, stride);
  }
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BP_BACKENDS_CPU_RUNS_INL_H
