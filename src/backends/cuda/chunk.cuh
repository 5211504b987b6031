// SPDX-License-Identifier: Apache-2.0
// Chunks: neighbouring elements that move in one access of up to 16 bytes, and the way of the types to f32 and back.
#pragma once

#include "core/dtype.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace bp::cuda {

// ---- Values ------------------------------------------------------------------------------------------

inline __device__ float widened(float v) { return v; }
inline __device__ float widened(__half v) { return __half2float(v); }
inline __device__ float widened(__nv_bfloat16 v) { return __bfloat162float(v); }

// The one rounding at the end of a sum.
template <class T>
__device__ T narrowed(float v) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(v);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(v);
  } else {
    return v;
  }
}

// Calls run<T>(): f32 and what is widened to it.
template <class Run>
auto with_type(DType dtype, const Run& run) {
  if (dtype == DType::f16) return run.template operator()<__half>();
  if (dtype == DType::bf16) return run.template operator()<__nv_bfloat16>();
  return run.template operator()<float>();
}

// Below every other value.
template <class T>
__device__ T minus_infinity() {
  return narrowed<T>(__int_as_float(0xff800000));
}

// ---- Memory ------------------------------------------------------------------------------------------

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Chunk {
  T at[kCount];
};

// The bits of a chunk as the hardware moves them.
template <int kBytes>
using Bits = std::conditional_t<
    kBytes == 1, unsigned char,
    std::conditional_t<kBytes == 2, unsigned short,
                       std::conditional_t<kBytes == 4, unsigned int, std::conditional_t<kBytes == 8, uint2, uint4>>>>;

// Hides from the compiler where a value comes from: it can then only be used as it is.
inline __device__ void keep(unsigned int& raw) { asm volatile("" : "+r"(raw)); }
inline __device__ void keep(uint2& raw) { asm volatile("" : "+r"(raw.x), "+r"(raw.y)); }
inline __device__ void keep(uint4& raw) { asm volatile("" : "+r"(raw.x), "+r"(raw.y), "+r"(raw.z), "+r"(raw.w)); }
template <class T>
__device__ void keep(T*& pointer) {
  asm volatile("" : "+l"(pointer));
}

// A chunk as it was read. Its elements are taken from it later, so that many loads are under way at once.
template <class T, int kCount>
struct RawChunk {
  using Loaded = Bits<static_cast<int>(sizeof(T)) * kCount>;
  static_assert(sizeof(Loaded) == sizeof(T) * kCount);
  // Small ones wait in a whole register: to cut them off would be a use.
  std::conditional_t<(sizeof(Loaded) < 4), unsigned int, Loaded> raw;

  // From memory that no one writes while the kernel runs: only so may a load move above the stores before it. The
  // caller's value stays where `exists` is false; `keep` makes that one predicated load: without it the compiler takes
  // the elements apart in each branch, and waits there.
  __device__ void load_if(bool exists, const T* from) {
    if (exists) raw = __ldg(reinterpret_cast<const Loaded*>(from));
    keep(raw);
  }
  __device__ void load_shared_if(bool exists, const T* from) {
    if (exists) raw = *reinterpret_cast<const Loaded*>(from);
  }
  // By an address in shared memory, of a chunk that is small.
  __device__ void load_shared(std::uint32_t address) {
    static_assert(sizeof(Loaded) == 2);
    asm volatile("ld.shared.u16 %0, [%1];" : "=r"(raw) : "r"(address) : "memory");
  }
  __device__ Chunk<T, kCount> chunk() const {
    Chunk<T, kCount> elements;
    std::memcpy(&elements, &raw, sizeof elements);
    return elements;
  }
  __device__ void fill(unsigned char byte) { std::memset(&raw, byte, sizeof raw); }
};

template <int kCount, class T>
__device__ Chunk<T, kCount> load(const T* from) {
  return *reinterpret_cast<const Chunk<T, kCount>*>(from);
}

template <int kCount, class T>
__device__ void store(T* to, const Chunk<T, kCount>& chunk) {
  *reinterpret_cast<Chunk<T, kCount>*>(to) = chunk;
}

// An entry of a table that no one writes, in one access.
template <class V>
__device__ V load_entry(const V* from) {
  using Loaded = Bits<static_cast<int>(sizeof(V))>;
  static_assert(sizeof(V) == sizeof(Loaded) && alignof(V) == sizeof(Loaded));
  const Loaded raw = __ldg(reinterpret_cast<const Loaded*>(from));
  V entry;
  std::memcpy(&entry, &raw, sizeof entry);
  return entry;
}

}  // namespace bp::cuda
