// SPDX-License-Identifier: Apache-2.0
// f16 and bf16: storage types and their conversions to and from f32, in integer arithmetic, so that no instruction
// set, compiler or floating-point mode has a say. Widening is exact; narrowing rounds once to nearest even, keeps
// subnormals, overflows to infinity, and keeps a NaN a NaN. Where a CUDA device runs this, its own instructions do the
// same: each has its rounding in its name, and no mode changes it.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace bp {

struct f16 {
  std::uint16_t bits;
};
struct bf16 {
  std::uint16_t bits;
};

// v >> shift, rounded to nearest even.
constexpr std::uint32_t shift_right_to_nearest_even(std::uint32_t v, int shift) {
  const std::uint32_t quotient = v >> shift;
  const std::uint32_t remainder = v & ((1u << shift) - 1);
  const std::uint32_t half = 1u << (shift - 1);
  const bool up = remainder > half || (remainder == half && (quotient & 1) != 0);
  return quotient + (up ? 1 : 0);
}

constexpr float to_f32(bf16 v) { return std::bit_cast<float>(std::uint32_t{v.bits} << 16); }

constexpr bf16 to_bf16(float v) {
#ifdef __CUDA_ARCH__
  if (!std::is_constant_evaluated()) {
    bf16 narrowed{};
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(narrowed.bits) : "f"(v));
    return narrowed;
  }
#endif
  const auto bits = std::bit_cast<std::uint32_t>(v);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  if (nan) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};  // quiet, so that the payload cannot vanish
  return {static_cast<std::uint16_t>(shift_right_to_nearest_even(bits, 16))};
}

constexpr float to_f32(f16 v) {
#ifdef __CUDA_ARCH__
  if (!std::is_constant_evaluated()) {
    float wide = 0;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(v.bits));
    return wide;
  }
#endif
  const std::uint32_t sign = std::uint32_t{v.bits & 0x8000u} << 16;
  const std::uint32_t exponent = (v.bits >> 10) & 0x1fu;
  std::uint32_t mantissa = v.bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));  // infinity, NaN
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  if (mantissa == 0) return std::bit_cast<float>(sign);
  // A subnormal, mantissa * 2^-24: shift the leading one to bit 10, where it becomes f32's implicit one.
  const int shift = std::countl_zero(mantissa) - 21;
  mantissa = (mantissa << shift) & 0x3ffu;
  return std::bit_cast<float>(sign | (static_cast<std::uint32_t>(113 - shift) << 23) | (mantissa << 13));
}

constexpr f16 to_f16(float v) {
#ifdef __CUDA_ARCH__
  if (!std::is_constant_evaluated()) {
    f16 narrowed{};
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrowed.bits) : "f"(v));
    return narrowed;
  }
#endif
  const auto bits = std::bit_cast<std::uint32_t>(v);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const auto with_sign = [sign](std::uint32_t rest) { return f16{static_cast<std::uint16_t>(sign | rest)}; };

  constexpr std::uint32_t kInfinity = 0x7f800000u;
  constexpr std::uint32_t kOverflow = 0x477ff000u;     // 65520: halfway between the largest f16 and the next
  constexpr std::uint32_t kLeastNormal = 0x38800000u;  // 2^-14
  constexpr std::uint32_t kVanish = 0x33000000u;       // 2^-25: half the least subnormal, a tie that goes to 0
  if (magnitude > kInfinity) return with_sign(0x7e00u | ((magnitude >> 13) & 0x1ffu));
  if (magnitude >= kOverflow) return with_sign(0x7c00u);
  if (magnitude >= kLeastNormal) return with_sign(shift_right_to_nearest_even(magnitude - (112u << 23), 13));
  if (magnitude <= kVanish) return with_sign(0);
  const auto exponent = static_cast<int>(magnitude >> 23);
  return with_sign(shift_right_to_nearest_even((magnitude & 0x7fffffu) | 0x800000u, 126 - exponent));
}

}  // namespace bp
