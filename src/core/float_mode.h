// SPDX-License-Identifier: Apache-2.0
// The floating-point mode the contract's bits need (round to nearest, subnormals kept, no traps), for the time of one
// scope on one thread. What the host had set is put back, its sticky flags included.
#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace bp {

class FloatMode {
 public:
#if defined(__SSE2__)
  FloatMode() : saved_(_mm_getcsr()) { _mm_setcsr(kDefault); }
  ~FloatMode() { _mm_setcsr(saved_); }

 private:
  static constexpr std::uint32_t kDefault = 0x1f80;  // all exceptions masked, nearest even, no FTZ, no DAZ
  std::uint32_t saved_;
#elif defined(__aarch64__)
  FloatMode() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    asm volatile("msr fpcr, %0" : : "r"(std::uint64_t{0}));
  }
  ~FloatMode() { asm volatile("msr fpcr, %0" : : "r"(saved_)); }

 private:
  std::uint64_t saved_;
#else
#error "backpass: the floating-point mode of this processor is not known"
#endif

 public:
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;
};

}  // namespace bp
