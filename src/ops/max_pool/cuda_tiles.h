// SPDX-License-Identifier: Apache-2.0
// Max pooling on CUDA for the windows that are common, as the host calls it. Types are f32, f16 and bf16, winners
// compact, in bytes. The launches only put work on the stream.
#pragma once

#include "core/dtype.h"
#include "ops/max_pool/cuda.h"

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>

namespace bp::cuda {

// A window that kernels are compiled for: alike along rows and columns; the padding is that of the columns.
struct TiledWindow {
  int size, stride, dilation, padding;
};
inline constexpr std::array<TiledWindow, 7> kTiledWindows{
    {{2, 2, 1, 0}, {3, 2, 1, 1}, {3, 2, 1, 0}, {3, 1, 1, 1}, {3, 1, 2, 1}, {3, 1, 2, 2}, {5, 1, 1, 2}}};

// Which of them have a depth axis, too, in the gradient from stored winners.
constexpr bool tiles_volumes(const TiledWindow& window) { return window.stride == 2 && window.dilation == 1; }

// Where winners are recomputed: in the kernel that gathers from them, or by one before it, into the workspace. Threads
// that keep to channels have few columns, so that a tile would look after many windows of its neighbours, which costs
// more than a byte to write and to read for each window.
constexpr bool recomputes_at_once(const TiledWindow& window, bool planar) {
  return planar || window.size <= window.stride;
}

// What a thread keeps to: neighbouring columns of one channel, or neighbouring channels of one or two columns; one by
// one where memory is not aligned for more.
enum class PoolTile { columns, odd_columns, channels, odd_channels };
inline constexpr int kTileChannels = 4;

// The columns of x and dx that a thread of PoolTile::columns moves at once, as measured on an H200.
constexpr int tile_columns(const TiledWindow& window, std::size_t element_bytes, bool searches_only) {
  if (element_bytes == 4 || window.size == 5) return 4;
  return searches_only && window.size == 3 && window.stride == 2 ? 4 : 8;
}
// And the windows: dilated ones without padding for all taps leave rows of dy that only 2 divides.
constexpr int tile_windows(const TiledWindow& window, std::size_t element_bytes, bool searches_only) {
  return window.dilation > 1 ? 2 : tile_columns(window, element_bytes, searches_only) / window.stride;
}

template <class T>
struct PoolView {
  T* data;
  std::int64_t batch, channel, depth, row, column;  // strides in elements

  // So many columns further; planar ones are neighbours.
  template <class Tile>
  [[nodiscard]] constexpr T* at_column(int i) const {
    return data + (Tile::kPlanar ? i : i * column);
  }
};

struct PoolCut {
  // The problem. A depth axis must have disjoint windows and no padding: each depth of dx has one depth of dy, or none.
  std::uint32_t batch, channels;
  int depth, height, width;
  int out_depth, out_height, out_width;
  int row_padding;
  int depth_window, depth_stride;
  int first_window = 0;  // those before it, in a row, do not exist

  // Its cut, by `cut_pool`: a block takes one strip of one tile (of columns) of several planes (or of parts of their
  // channels); its threads are [unit][group of columns][vector of channels].
  std::uint32_t planes = 0, channel_blocks = 0, vectors = 0;
  std::uint32_t units = 0, groups = 0, tile_groups = 0, tiles = 0, strips = 0;
  int strip = 0;
};

struct TiledPool {
  DType dtype = DType::f32;
  std::size_t window = 0;  // its place in kTiledWindows
  PoolTile tile = PoolTile::columns;
  PoolCut problem{};
};

using ConstPoolView = PoolView<const void>;
using MutablePoolView = PoolView<void>;

// y or winners without data are not written.
cudaError_t tiled_search(const TiledPool& pool, const ConstPoolView& x, const MutablePoolView& y,
                         const MutablePoolView& winners, cudaStream_t stream);
// *found is cleared first.
cudaError_t tiled_gather(const TiledPool& pool, const ConstPoolView& winners, const ConstPoolView& dy,
                         const MutablePoolView& dx, WrongWinnersFound* found, cudaStream_t stream);
// The winners of x, and the gather from them, in one kernel, where `recomputes_at_once`. Without a depth axis.
cudaError_t tiled_recompute(const TiledPool& pool, const ConstPoolView& x, const ConstPoolView& dy,
                            const MutablePoolView& dx, cudaStream_t stream);

}  // namespace bp::cuda
