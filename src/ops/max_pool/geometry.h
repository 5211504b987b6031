// SPDX-License-Identifier: Apache-2.0
// The index arithmetic of pooling windows: written here once, for every backend. All constexpr, so that device code can
// call it too.
//
// Every problem is seen as {N, C, D, H, W}: a pooling of fewer spatial axes has trivial leading ones (size 1, window
// 1). They change neither the order of the taps nor any index.
#pragma once

#include <array>
#include <cstdint>

namespace bp {

// Kernels count in 32 bits where a problem allows it; everything else in 64.
template <class Int>
using BasicSpatial = std::array<Int, 3>;
using Spatial = BasicSpatial<std::int64_t>;

inline constexpr std::int64_t kMostTaps = (std::int64_t{1} << 32) - 2;  // u32 numbers them, and one value is left over

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b > 0 ? 1 : 0); }

template <class Int>
struct BasicPoolAxis {
  Int input = 1;
  Int output = 1;
  Int window = 1;
  Int stride = 1;
  Int start_padding = 0;
  Int end_padding = 0;
  Int dilation = 1;

  // E: what a window spans.
  [[nodiscard]] constexpr Int extent() const { return (window - 1) * dilation + 1; }

  // Output sizes: when only whole windows count, and when a last partial one may.
  [[nodiscard]] constexpr Int floor_size() const {
    return (input + start_padding + end_padding - extent()) / stride + 1;
  }
  [[nodiscard]] constexpr Int ceil_size() const {
    return divided_up(input + start_padding + end_padding - extent(), stride) + 1;
  }

  // Where tap k of window o reads; outside [0, input) the tap does not exist.
  [[nodiscard]] constexpr Int position(Int o, Int k) const { return o * stride - start_padding + k * dilation; }
  // The existing taps of window o are [first_tap, end_tap); there are none when end_tap <= first_tap.
  [[nodiscard]] constexpr Int first_tap(Int o) const {
    const Int start = position(o, 0);
    return start >= 0 ? 0 : divided_up(-start, dilation);
  }
  [[nodiscard]] constexpr Int end_tap(Int o) const {
    const Int room = input - position(o, 0);
    if (room <= 0) return 0;
    if (room >= extent()) return window;
    const Int taps = divided_up(room, dilation);
    return taps < window ? taps : window;
  }
  [[nodiscard]] constexpr bool exists(Int o, Int k) const { return k >= first_tap(o) && k < end_tap(o); }
  // The tap of window o that reads position p, -1 when none does.
  [[nodiscard]] constexpr Int tap_at(Int o, Int p) const {
    const Int distance = p - position(o, 0);
    if (distance < 0 || distance % dilation != 0) return -1;
    const Int k = distance / dilation;
    return k < window ? k : -1;
  }

 private:
  static constexpr Int divided_up(Int a, Int b) { return a / b + (a % b > 0 ? 1 : 0); }
};
using PoolAxis = BasicPoolAxis<std::int64_t>;

template <class Int>
struct BasicPoolGeometry {
  Int batch = 0;
  Int channels = 0;
  std::array<BasicPoolAxis<Int>, 3> axes{};

  [[nodiscard]] constexpr Int taps() const { return axes[0].window * axes[1].window * axes[2].window; }
  [[nodiscard]] constexpr Int plane() const {
    if (axes[0].input == 0 || axes[1].input == 0 || axes[2].input == 0) return 0;
    return axes[0].input * axes[1].input * axes[2].input;
  }

  [[nodiscard]] constexpr BasicSpatial<Int> position(const BasicSpatial<Int>& o, const BasicSpatial<Int>& k) const {
    return {axes[0].position(o[0], k[0]), axes[1].position(o[1], k[1]), axes[2].position(o[2], k[2])};
  }
  [[nodiscard]] constexpr bool exists(const BasicSpatial<Int>& o, const BasicSpatial<Int>& k) const {
    return axes[0].exists(o[0], k[0]) && axes[1].exists(o[1], k[1]) && axes[2].exists(o[2], k[2]);
  }

  // Row-major numbers: of a tap in its window (compact winners), of a position in its plane (PyTorch's indices), of a
  // position in the whole of x (flat winners).
  [[nodiscard]] constexpr Int tap_number(const BasicSpatial<Int>& k) const {
    return (k[0] * axes[1].window + k[1]) * axes[2].window + k[2];
  }
  [[nodiscard]] constexpr BasicSpatial<Int> tap_of_number(Int number) const {
    const Int rows = number / axes[2].window;
    return {rows / axes[1].window, rows % axes[1].window, number % axes[2].window};
  }
  [[nodiscard]] constexpr Int plane_index(const BasicSpatial<Int>& p) const {
    return (p[0] * axes[1].input + p[1]) * axes[2].input + p[2];
  }
  [[nodiscard]] constexpr BasicSpatial<Int> position_of_plane_index(Int index) const {
    const Int rows = index / axes[2].input;
    return {rows / axes[1].input, rows % axes[1].input, index % axes[2].input};
  }
  [[nodiscard]] constexpr std::int64_t flat_index(std::int64_t n, std::int64_t c, const BasicSpatial<Int>& p) const {
    return (n * channels + c) * plane() + plane_index(p);
  }
};
using PoolGeometry = BasicPoolGeometry<std::int64_t>;

}  // namespace bp
