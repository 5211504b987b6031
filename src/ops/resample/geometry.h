// SPDX-License-Identifier: Apache-2.0
// The forward map of one axis, evaluated at one output: the only place where a source coordinate is computed. Both
// directions are tables of these evaluations; nothing inverts the map.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace bp {

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 UInt128;

struct Tap {
  std::int64_t index = 0;
  double weight = 0;  // representable in the accumulator
};

// Zero to two taps, ascending.
struct Taps {
  int count = 0;
  Tap tap[2];

  void add(std::int64_t index, double weight) {
    if (weight != 0) tap[count++] = {index, weight};  // a tap whose rounded weight is 0 does not exist
  }
};

enum class Accumulator { f32, f64 };

inline double round_to(Accumulator accumulator, double v) {
  return accumulator == Accumulator::f64 ? v : static_cast<double>(static_cast<float>(v));
}

inline std::int64_t clamp_index(std::int64_t i, std::int64_t size) { return i < 0 ? 0 : (i >= size ? size - 1 : i); }

// The linear taps at i0 and i0 + 1; one tap of weight 1 where the edge makes them the same element.
inline Taps linear_taps(std::int64_t i0, double w0, double w1, std::int64_t size) {
  Taps taps;
  const std::int64_t a = clamp_index(i0, size);
  const std::int64_t b = clamp_index(i0 + 1, size);
  if (a == b) {
    taps.add(a, 1);
  } else {
    taps.add(a, w0);
    taps.add(b, w1);
  }
  return taps;
}

inline Taps nearest_tap(std::int64_t i, std::int64_t size) {
  Taps taps;
  taps.add(clamp_index(i, size), 1);
  return taps;
}

// ---- Free scale and offsets ----------------------------------------------------------------------------

enum class Rounding { increasing, decreasing, half_up };

struct ScaledAxis {
  double scale = 1;
  double input_offset = 0;
  double output_offset = 0;

  // c = (o - op) / s - ip in f64, each step rounded, clamped to [-1, size].
  [[nodiscard]] double coordinate(std::int64_t o, std::int64_t size) const {
    const double shifted = static_cast<double>(o) - output_offset;
    const double scaled = shifted / scale;
    const double c = scaled - input_offset;
    return std::fmin(std::fmax(c, -1.0), static_cast<double>(size));
  }

  [[nodiscard]] Taps nearest(std::int64_t o, std::int64_t size, Rounding rounding) const {
    const double c = coordinate(o, size);
    const double rounded = rounding == Rounding::increasing   ? std::ceil(c)
                           : rounding == Rounding::decreasing ? std::floor(c)
                                                              : std::floor(c + 0.5);
    return nearest_tap(static_cast<std::int64_t>(rounded), size);
  }

  [[nodiscard]] Taps linear(std::int64_t o, std::int64_t size, Accumulator accumulator) const {
    const double c = coordinate(o, size);
    const double i0 = std::floor(c);
    const double t = c - i0;
    return linear_taps(static_cast<std::int64_t>(i0), round_to(accumulator, 1 - t), round_to(accumulator, t), size);
  }
};

// ---- Named conventions, exact --------------------------------------------------------------------------

// numerator / denominator, 0 <= numerator <= denominator < 2^64, rounded once. The quotient is taken to more than 60
// bits with everything below folded into its last, so that the one conversion to the accumulator is the one rounding.
inline double round_ratio(Accumulator accumulator, std::uint64_t numerator, std::uint64_t denominator) {
  if (numerator == 0) return 0;
  const int shift = 61 + static_cast<int>(std::bit_width(denominator)) - static_cast<int>(std::bit_width(numerator));
  const UInt128 scaled = UInt128{numerator} << shift;
  const auto quotient = static_cast<std::int64_t>(scaled / denominator) | (scaled % denominator != 0 ? 1 : 0);
  const double rounded = accumulator == Accumulator::f64 ? static_cast<double>(quotient)
                                                         : static_cast<double>(static_cast<float>(quotient));
  return std::ldexp(rounded, -shift);
}

enum class Convention { half_pixel, align_corners, asymmetric };

// A source coordinate as a rational number: whole + part / denominator, 0 <= part < denominator.
struct ExactCoordinate {
  std::int64_t whole = 0;
  std::uint64_t part = 0;
  std::uint64_t denominator = 1;

  ExactCoordinate(Convention convention, std::int64_t o, std::int64_t in, std::int64_t out) {
    switch (convention) {
      case Convention::half_pixel:
        set((2 * Int128{o} + 1) * in - out, 2 * Int128{out});
        break;
      case Convention::align_corners:
        if (in > 1 && out > 1) set(Int128{o} * (in - 1), out - 1);
        break;
      case Convention::asymmetric:
        set(Int128{o} * in, out);
        break;
    }
  }

  [[nodiscard]] Taps nearest(std::int64_t size, Rounding rounding) const {
    const bool up = rounding == Rounding::increasing ? part > 0
                    : rounding == Rounding::half_up  ? part >= denominator - part
                                                     : false;
    return nearest_tap(whole + (up ? 1 : 0), size);
  }

  [[nodiscard]] Taps linear(std::int64_t size, Accumulator accumulator) const {
    return linear_taps(whole, round_ratio(accumulator, denominator - part, denominator),
                       round_ratio(accumulator, part, denominator), size);
  }

 private:
  void set(Int128 numerator, Int128 positive) {
    Int128 quotient = numerator / positive;
    if (numerator % positive < 0) --quotient;  // floor
    whole = static_cast<std::int64_t>(quotient);
    part = static_cast<std::uint64_t>(numerator - quotient * positive);
    denominator = static_cast<std::uint64_t>(positive);
  }
};

}  // namespace bp
