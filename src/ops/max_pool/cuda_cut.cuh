// SPDX-License-Identifier: Apache-2.0
// How a pooling is cut into threads. A thread keeps to a few neighbouring columns (NCHW) or to a chunk of channels of
// one or two columns (NHWC) and walks down a strip of rows; so each row is read once, and what overlapping windows have
// in common stays in registers. Index arithmetic is done once a strip.
//
// Along rows everything is counted from the first padded one: window row r covers the rows from S*r on, and step r of
// the walk ends the rows [S*r, S*r + S), which no later window reaches.
//
// A dilated window row, whose stride is 1, reads every D-th row, and so do those D, 2D, ... further on: there are D
// classes of rows that have nothing in common. Each is a pooling of its own, with no dilation along rows. For threads
// that keep to channels there are classes of columns, too: neighbours in a class share windows.
#pragma once

#include "backends/cuda/chunk.cuh"
#include "ops/max_pool/cuda_tiles.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace bp::cuda {

inline constexpr std::uint32_t kNoTap = 255;  // a window without a winner

// Of any sign.
constexpr int floor_div(int a, int b) { return a / b - (a % b < 0 ? 1 : 0); }
constexpr int ceil_div(int a, int b) { return -floor_div(-a, b); }

// A window that is known when the kernel is compiled, alike along rows and columns. Dilation and padding are those of
// the columns of a class; the first windows of one that has less padding do not exist.
template <int kSize_, int kStride_, int kDilation_, int kPadding_, bool kColumnClasses_>
struct Window {
  static constexpr int kSize = kSize_;
  static constexpr int kStride = kStride_;
  static constexpr TiledWindow kPlain{kSize_, kStride_, kDilation_, kPadding_};
  static constexpr int kRowClasses = kDilation_;
  static constexpr int kColumnClasses = kColumnClasses_ ? kDilation_ : 1;
  static constexpr int kClasses = kRowClasses * kColumnClasses;
  static constexpr int kDilation = kDilation_ / kColumnClasses;
  static constexpr int kPadding = ceil_div(kPadding_, kColumnClasses);
  static constexpr int kExtent = (kSize - 1) * kDilation + 1;  // in columns; in rows it is kSize
  static constexpr int kTaps = kSize * kSize;
  static constexpr int kRowsBefore = (kSize - 1) / kStride;  // window rows before r that reach the rows of step r
  static_assert(kPadding < kExtent && kSize >= kStride && (kClasses == 1 || kStride == 1));
};

// A thread's columns of dx (and x) and the windows that begin there, padding aside. `kChunk` windows, or `kWide`
// columns, of one channel move in one access: 1 where rows are not aligned for more.
template <class Window_, int kColumns_, int kChannels_, int kChunk_, int kWide_>
struct Tile {
  using Window = Window_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kChannels = kChannels_;
  static constexpr int kChunk = kChunk_;
  static constexpr int kWide = kWide_;
  static constexpr int kWindows = kColumns / Window::kStride;
  static constexpr bool kPlanar = kChannels == 1 && kWindows > 1;  // neighbouring threads have neighbouring columns
  static_assert(kWindows * Window::kStride == kColumns && kWindows % kChunk == 0 && kColumns % kWide == 0);
  static_assert(kChannels == 1 || (kChunk == 1 && kWide == 1));

  // The windows that reach the columns, from the first own one on, in whole chunks.
  static constexpr int kFirst =
      floor_div(ceil_div(Window::kPadding - Window::kExtent + 1, Window::kStride), kChunk) * kChunk;
  static constexpr int kEnd =
      ceil_div(floor_div(Window::kPadding + kColumns - 1, Window::kStride) + 1, kChunk) * kChunk;
  // The columns that the own windows read, from the first column on, in whole accesses.
  static constexpr int kLow = floor_div(-Window::kPadding, kWide) * kWide;
  static constexpr int kHigh =
      ceil_div((kWindows - 1) * Window::kStride + Window::kExtent - Window::kPadding, kWide) * kWide;

  // Groups of windows beside a tile that its columns depend on.
  static constexpr int kGroupsBefore = ceil_div(-kFirst, kWindows);
  static constexpr int kGroupsAfter = ceil_div(kEnd - kWindows, kWindows);
};

struct PoolGrid {
  std::uint64_t blocks;  // more than a launch takes are the caller's to refuse, as 2^32 planes are
  std::uint32_t threads;
};

// The problem of one class: its sizes and its padding. Where there is one class, the problem itself.
template <class Window>
using ClassCut = std::conditional_t<Window::kClasses == 1, const PoolCut&, PoolCut>;
template <class Window>
constexpr __host__ __device__ ClassCut<Window> class_of(const PoolCut& cut, int number) {
  if constexpr (Window::kClasses == 1) {
    return cut;
  } else {
    constexpr int kRows = Window::kRowClasses, kColumns = Window::kColumnClasses;
    const int row = number % kRows, column = number / kRows;  // of its first window
    // How many there are, of rows of any kind, from the first on.
    const auto every = [](int step, int all, int first) { return all > first ? (all - first + step - 1) / step : 0; };
    PoolCut result = cut;
    result.row_padding = every(kRows, cut.row_padding, row);
    result.height = every(kRows, cut.height, row - cut.row_padding + result.row_padding * kRows);
    result.out_height = every(kRows, cut.out_height, row);
    if constexpr (kColumns > 1) {
      const int column_padding = every(kColumns, Window::kPlain.padding, column);
      result.first_window = Window::kPadding - column_padding;
      result.width = every(kColumns, cut.width, column - Window::kPlain.padding + column_padding * kColumns);
      result.out_width = every(kColumns, cut.out_width, column) + result.first_window;
    }
    return result;
  }
}
template <class Window>
__device__ int first_existing(const PoolCut& of_class) {
  return Window::kColumnClasses == 1 ? 0 : of_class.first_window;
}
// Its part of a tensor whose rows and columns are those of windows, or those that windows read.
template <class Window, class T>
__device__ PoolView<T> part_of_class(PoolView<T> view, int first_row, int first_column) {
  view.data += first_row * view.row + first_column * view.column;
  view.row *= Window::kRowClasses;
  view.column *= Window::kColumnClasses;
  return view;
}
template <class Window, class T>
__device__ PoolView<T> windows_of_class(const PoolView<T>& view, const PoolCut& of_class, int number) {
  const int row = number % Window::kRowClasses, column = number / Window::kRowClasses;
  return part_of_class<Window>(view, row, column - first_existing<Window>(of_class) * Window::kColumnClasses);
}
template <class Window, class T>
__device__ PoolView<T> read_by_class(const PoolView<T>& view, const PoolCut& cut, const PoolCut& of_class, int number) {
  constexpr int kRows = Window::kRowClasses, kColumns = Window::kColumnClasses;
  const int row = number % kRows - cut.row_padding + of_class.row_padding * kRows;
  int column = 0;
  if constexpr (kColumns > 1) {
    column = number / kRows - Window::kPlain.padding + (Window::kPadding - of_class.first_window) * kColumns;
  }
  return part_of_class<Window>(view, row, column);
}

// The steps of the walk.
template <class Window>
constexpr __host__ __device__ int steps_of(const PoolCut& cut) {
  return max((cut.height + cut.row_padding + Window::kStride - 1) / Window::kStride, cut.out_height);
}

// A small problem is over sooner in short strips, on all multiprocessors of a device.
inline constexpr int kLeastStrip = 2;
inline constexpr std::uint64_t kFewBlocks = 256;

// `halo`: the threads of a tile also look after windows of its neighbours. A plane is one of `layers`: the depths that
// are walked, or the classes.
template <class Tile>
PoolGrid cut_pool(PoolCut& cut, bool halo, int layers, int threads, int strip) {
  using Window = typename Tile::Window;
  std::int64_t columns = 0;
  int steps = 0;
  for (int i = 0; i < Window::kClasses; ++i) {
    const ClassCut<Window> part = class_of<Window>(cut, i);
    columns = std::max({columns, std::int64_t{part.width}, std::int64_t{part.out_width} * Window::kStride});
    steps = std::max(steps, steps_of<Window>(part));
  }
  const std::uint32_t groups = divide_up(columns, Tile::kColumns);
  const std::uint32_t vectors = divide_up(cut.channels, Tile::kChannels);
  const std::uint32_t beside = halo ? Tile::kGroupsBefore + Tile::kGroupsAfter : 0;
  constexpr std::uint32_t kMostVectors = 64 / Tile::kChannels;
  cut.vectors = Tile::kPlanar ? 1 : std::min(vectors, kMostVectors);
  cut.channel_blocks = divide_up(vectors, cut.vectors);
  if (!Tile::kPlanar) cut.vectors = divide_up(vectors, cut.channel_blocks);
  cut.planes = cut.batch * cut.channel_blocks * static_cast<std::uint32_t>(layers);

  const std::uint32_t room = std::max<std::uint32_t>(threads / cut.vectors, beside + 1);
  cut.tiles = groups <= room ? 1 : divide_up(groups, room - beside);
  cut.tile_groups = divide_up(groups, cut.tiles);
  cut.groups = cut.tile_groups + (cut.tiles > 1 ? beside : 0);
  cut.units = std::max<std::uint32_t>(threads / (cut.vectors * cut.groups), 1);

  const std::uint64_t blocks = std::uint64_t{divide_up(cut.planes, cut.units)} * cut.tiles;
  const auto strips_of = [&] { return static_cast<std::uint32_t>(std::max((steps + strip / 2) / strip, 1)); };
  while (strip > kLeastStrip && blocks * strips_of() < kFewBlocks) strip /= 2;
  cut.strips = strips_of();
  cut.strip = static_cast<int>(divide_up(steps, cut.strips));
  return {blocks * cut.strips, cut.units * cut.groups * cut.vectors};
}

// Where a thread stands.
struct PoolPlace {
  bool here;  // whether there is a plane for it
  std::uint32_t unit, group, vector;
  std::uint32_t batch, channel;
  int layer;
  int tile_group;  // the first of its tile
  int first_step, end_step;

  template <class Tile>
  __device__ static PoolPlace find(const PoolCut& cut, int layers) {
    PoolPlace at;
    at.vector = threadIdx.x % cut.vectors;
    const std::uint32_t column = threadIdx.x / cut.vectors;
    at.group = column % cut.groups;
    at.unit = column / cut.groups;
    const std::uint32_t tile = blockIdx.x / cut.strips;
    at.first_step = static_cast<int>(blockIdx.x % cut.strips) * cut.strip;
    at.end_step = at.first_step + cut.strip;
    at.tile_group = static_cast<int>(tile % cut.tiles * cut.tile_groups);
    const std::uint32_t plane = tile / cut.tiles * cut.units + at.unit;
    const std::uint32_t count = static_cast<std::uint32_t>(layers);
    at.layer = static_cast<int>(plane % count);
    at.channel = (plane / count % cut.channel_blocks * cut.vectors + at.vector) * Tile::kChannels;
    at.batch = plane / count / cut.channel_blocks;
    at.here = plane < cut.planes && at.channel < cut.channels;
    return at;
  }

  // The view from a column of row 0 of the thread's plane on.
  template <class T>
  __device__ PoolView<T> in_plane(PoolView<T> view, int at_depth, int column) const {
    view.data += batch * view.batch + channel * view.channel + at_depth * view.depth + column * view.column;
    return view;
  }
};

}  // namespace bp::cuda
