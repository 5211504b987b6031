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

using Spatial = std::array<std::int64_t, 3>;

inline constexpr std::int64_t kMostTaps = (std::int64_t{1} << 32) - 2;  // u32 numbers them, and one value is left over

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b > 0 ? 1 : 0); }

struct PoolAxis {
  std::int64_t input = 1;
  std::int64_t output = 1;
  std::int64_t window = 1;
  std::int64_t stride = 1;
  std::int64_t start_padding = 0;
  std::int64_t end_padding = 0;
  std::int64_t dilation = 1;

  // E: what a window spans.
  [[nodiscard]] constexpr std::int64_t extent() const { return (window - 1) * dilation + 1; }

  // Output sizes: when only whole windows count, and when a last partial one may.
  [[nodiscard]] constexpr std::int64_t floor_size() const {
    return (input + start_padding + end_padding - extent()) / stride + 1;
  }
  [[nodiscard]] constexpr std::int64_t ceil_size() const {
    return ceil_div(input + start_padding + end_padding - extent(), stride) + 1;
  }

  // Where tap k of window o reads; outside [0, input) the tap does not exist.
  [[nodiscard]] constexpr std::int64_t position(std::int64_t o, std::int64_t k) const {
    return o * stride - start_padding + k * dilation;
  }
  // The existing taps of window o are [first_tap, end_tap); there are none when end_tap <= first_tap.
  [[nodiscard]] constexpr std::int64_t first_tap(std::int64_t o) const {
    const std::int64_t start = position(o, 0);
    return start >= 0 ? 0 : ceil_div(-start, dilation);
  }
  [[nodiscard]] constexpr std::int64_t end_tap(std::int64_t o) const {
    const std::int64_t room = input - position(o, 0);
    if (room <= 0) return 0;
    const std::int64_t taps = ceil_div(room, dilation);
    return taps < window ? taps : window;
  }
  [[nodiscard]] constexpr bool exists(std::int64_t o, std::int64_t k) const {
    return k >= first_tap(o) && k < end_tap(o);
  }
  // The tap of window o that reads position p, -1 when none does.
  [[nodiscard]] constexpr std::int64_t tap_at(std::int64_t o, std::int64_t p) const {
    const std::int64_t distance = p - position(o, 0);
    if (distance < 0 || distance % dilation != 0) return -1;
    const std::int64_t k = distance / dilation;
    return k < window ? k : -1;
  }
  // The windows that could have a tap at position p are [first_window, end_window); with a dilation some have none.
  [[nodiscard]] constexpr std::int64_t first_window(std::int64_t p) const {
    const std::int64_t least = p + start_padding - (extent() - 1);
    return least <= 0 ? 0 : ceil_div(least, stride);
  }
  [[nodiscard]] constexpr std::int64_t end_window(std::int64_t p) const {
    const std::int64_t end = (p + start_padding) / stride + 1;
    return end < output ? end : output;
  }
};

struct PoolGeometry {
  std::int64_t batch = 0;
  std::int64_t channels = 0;
  std::array<PoolAxis, 3> axes{};

  [[nodiscard]] constexpr std::int64_t taps() const { return axes[0].window * axes[1].window * axes[2].window; }
  [[nodiscard]] constexpr std::int64_t plane() const {
    if (axes[0].input == 0 || axes[1].input == 0 || axes[2].input == 0) return 0;
    return axes[0].input * axes[1].input * axes[2].input;
  }

  [[nodiscard]] constexpr Spatial position(const Spatial& o, const Spatial& k) const {
    return {axes[0].position(o[0], k[0]), axes[1].position(o[1], k[1]), axes[2].position(o[2], k[2])};
  }
  [[nodiscard]] constexpr bool exists(const Spatial& o, const Spatial& k) const {
    return axes[0].exists(o[0], k[0]) && axes[1].exists(o[1], k[1]) && axes[2].exists(o[2], k[2]);
  }

  // Row-major numbers: of a tap in its window (compact winners), of a position in its plane (PyTorch's indices), of a
  // position in the whole of x (flat winners).
  [[nodiscard]] constexpr std::int64_t tap_number(const Spatial& k) const {
    return (k[0] * axes[1].window + k[1]) * axes[2].window + k[2];
  }
  [[nodiscard]] constexpr Spatial tap_of_number(std::int64_t number) const {
    const std::int64_t rows = number / axes[2].window;
    return {rows / axes[1].window, rows % axes[1].window, number % axes[2].window};
  }
  [[nodiscard]] constexpr std::int64_t plane_index(const Spatial& p) const {
    return (p[0] * axes[1].input + p[1]) * axes[2].input + p[2];
  }
  [[nodiscard]] constexpr Spatial position_of_plane_index(std::int64_t index) const {
    const std::int64_t rows = index / axes[2].input;
    return {rows / axes[1].input, rows % axes[1].input, index % axes[2].input};
  }
  [[nodiscard]] constexpr std::int64_t flat_index(std::int64_t n, std::int64_t c, const Spatial& p) const {
    return (n * channels + c) * plane() + plane_index(p);
  }
};

}  // namespace bp
