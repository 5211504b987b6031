// SPDX-License-Identifier: Apache-2.0
// Data types: one table of facts, type lists, and the dispatch from a run-time type to a compile-time one.
#pragma once

#include "core/half.h"

#include <backpass/backpass.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

namespace bp {

enum class DType : std::int32_t {
  f64 = BP_F64,
  f32 = BP_F32,
  f16 = BP_F16,
  bf16 = BP_BF16,
  i64 = BP_I64,
  i32 = BP_I32,
  i16 = BP_I16,
  i8 = BP_I8,
  u64 = BP_U64,
  u32 = BP_U32,
  u16 = BP_U16,
  u8 = BP_U8,
};

struct DTypeFacts {
  DType dtype;
  std::string_view name;
  std::size_t size;
};

inline constexpr std::array<DTypeFacts, 12> kDTypes{{{DType::f64, "f64", 8},
                                                     {DType::f32, "f32", 4},
                                                     {DType::f16, "f16", 2},
                                                     {DType::bf16, "bf16", 2},
                                                     {DType::i64, "i64", 8},
                                                     {DType::i32, "i32", 4},
                                                     {DType::i16, "i16", 2},
                                                     {DType::i8, "i8", 1},
                                                     {DType::u64, "u64", 8},
                                                     {DType::u32, "u32", 4},
                                                     {DType::u16, "u16", 2},
                                                     {DType::u8, "u8", 1}}};

constexpr bool is_dtype(std::int32_t value) { return value >= BP_F64 && value <= BP_U8; }
constexpr const DTypeFacts& facts(DType dtype) {
  return kDTypes[static_cast<std::size_t>(static_cast<std::int32_t>(dtype) - BP_F64)];
}
constexpr std::string_view name(DType dtype) { return facts(dtype).name; }
constexpr std::size_t size_of(DType dtype) { return facts(dtype).size; }

static_assert([] {
  for (const DTypeFacts& entry : kDTypes) {
    if (facts(entry.dtype).dtype != entry.dtype) return false;
  }
  return true;
}());

template <class T>
inline constexpr DType kDTypeOf = [] {
  if constexpr (std::is_same_v<T, double>) return DType::f64;
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, f16>) return DType::f16;
  if constexpr (std::is_same_v<T, bf16>) return DType::bf16;
  if constexpr (std::is_same_v<T, std::int64_t>) return DType::i64;
  if constexpr (std::is_same_v<T, std::int32_t>) return DType::i32;
  if constexpr (std::is_same_v<T, std::int16_t>) return DType::i16;
  if constexpr (std::is_same_v<T, std::int8_t>) return DType::i8;
  if constexpr (std::is_same_v<T, std::uint64_t>) return DType::u64;
  if constexpr (std::is_same_v<T, std::uint32_t>) return DType::u32;
  if constexpr (std::is_same_v<T, std::uint16_t>) return DType::u16;
  if constexpr (std::is_same_v<T, std::uint8_t>) return DType::u8;
}();

// ---- Lists and dispatch ------------------------------------------------------------------------------

template <class... Ts>
struct TypeList {};

using Floats = TypeList<double, float, f16, bf16>;
using FloatsAndBytes = TypeList<double, float, f16, bf16, std::int8_t, std::uint8_t>;
using SignedNumbers = TypeList<double, float, f16, bf16, std::int64_t, std::int32_t, std::int16_t, std::int8_t>;
using AllTypes = TypeList<double, float, f16, bf16, std::int64_t, std::int32_t, std::int16_t, std::int8_t,
                          std::uint64_t, std::uint32_t, std::uint16_t, std::uint8_t>;
using FlatIndexTypes = TypeList<std::uint32_t, std::uint64_t, std::int32_t, std::int64_t>;
using IndexTypes = TypeList<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, std::int32_t, std::int64_t>;

// Calls f<T>() for the T of the list that dtype names; false when the list has none.
template <class... Ts, class F>
constexpr bool visit(TypeList<Ts...>, DType dtype, F&& f) {
  return ((kDTypeOf<Ts> == dtype ? (f.template operator()<Ts>(), true) : false) || ...);
}

template <class List>
constexpr bool contains(List list, DType dtype) {
  return visit(list, dtype, []<class T>() {});
}

// Pure movement looks at the size of an element and never at its type.
template <class F>
constexpr void visit_size(std::size_t size, F&& f) {
  switch (size) {
    case 1:
      return f.template operator()<std::uint8_t>();
    case 2:
      return f.template operator()<std::uint16_t>();
    case 4:
      return f.template operator()<std::uint32_t>();
    default:
      return f.template operator()<std::uint64_t>();
  }
}

// ---- Arithmetic --------------------------------------------------------------------------------------

// The type sums are made in.
template <class T>
using Acc = std::conditional_t<std::is_same_v<T, double>, double, float>;
constexpr bool accumulates_in_f64(DType dtype) { return dtype == DType::f64; }

// Of the half types: above it there are NaNs.
template <class T>
inline constexpr std::uint16_t kInfinityBits = std::is_same_v<T, f16> ? 0x7c00u : 0x7f80u;

// Widening to a type that compares and computes: f32 for the half types, the type itself otherwise.
template <class T>
constexpr auto widen(T v) {
  if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
    return to_f32(v);
  } else {
    return v;
  }
}

template <class T>
constexpr bool is_nan(T v) {
  if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
    return (v.bits & 0x7fffu) > kInfinityBits<T>;
  } else {
    return v != v;
  }
}

// The one rounding at the end of a sum: nearest even; integers saturate, and a NaN (which only a table of
// overflowing weights can make) becomes 0.
template <class T>
constexpr T narrow(Acc<T> v) {
  if constexpr (std::is_same_v<T, f16>) {
    return to_f16(v);
  } else if constexpr (std::is_same_v<T, bf16>) {
    return to_bf16(v);
  } else if constexpr (std::is_integral_v<T>) {
    if (is_nan(v)) return T{0};
    const Acc<T> rounded = std::nearbyint(v);
    if (rounded <= static_cast<Acc<T>>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
    if (rounded >= static_cast<Acc<T>>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
    return static_cast<T>(rounded);
  } else {
    return v;
  }
}

// Below every other value: -infinity for floats.
template <class T>
constexpr T lowest() {
  if constexpr (std::is_same_v<T, f16>) {
    return f16{0xfc00u};
  } else if constexpr (std::is_same_v<T, bf16>) {
    return bf16{0xff80u};
  } else if constexpr (std::is_floating_point_v<T>) {
    return -std::numeric_limits<T>::infinity();
  } else {
    return std::numeric_limits<T>::min();
  }
}

}  // namespace bp
