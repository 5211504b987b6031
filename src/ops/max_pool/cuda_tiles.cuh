// SPDX-License-Identifier: Apache-2.0
// Max pooling on the GPU for the windows that are common: the kernels, their tiles and cuts. Winners are compact, u8.
//
// Not for these: windows that differ along rows and columns, more than 32 taps, a padding of columns as wide as the
// window, a depth axis with padding or overlapping windows (a depth axis is read by the gradient from winners only).
#pragma once

#include "ops/max_pool/cuda_gather.cuh"
#include "ops/max_pool/cuda_search.cuh"

namespace bp::cuda {

inline constexpr int kPoolThreads = 256;

// Which tile to take, as measured on an H200. A planar one wants rows of x and dx that are multiples of kColumns, rows
// of dy, y and winners that are multiples of kChunk, and pointers and strides that keep them so aligned.
//
//     planar, f32                     PlanarTile<Window, 4>
//     planar, f16 and bf16            PlanarTile<Window, 8>; 4 for max_pool 3x3 s2 and for rows that 8 does not divide
//     rows of dy divided by 2 only    PlanarTile<Window, kColumns, 2>
//     planar, not aligned             OddPlanarTile
//     channels by fours               ChannelTile<Window, kStride>; 2 columns for f16 and bf16 at stride 1
//     channels not by fours           OddChannelTile
template <class Window, int kColumns, int kChunk = kColumns / Window::kStride>
using PlanarTile = Tile<Window, kColumns, 1, kChunk, kColumns>;
template <class Window>
using OddPlanarTile = Tile<Window, 4, 1, 1, 1>;
template <class Window, int kColumns>
using ChannelTile = Tile<Window, kColumns, 4, 1, 1>;
template <class Window>
using OddChannelTile = Tile<Window, Window::kStride, 1, 1, 1>;

// Long strips share few rows with their neighbours, short ones are many threads.
template <class Tile>
PoolGrid cut_max_pool(PoolCut& cut) {
  return cut_pool<Tile>(cut, false, 1, kPoolThreads, 16);
}
template <class Tile>
PoolGrid cut_max_pool_grad_compact(PoolCut& cut) {
  constexpr int kShared = Tile::Window::kRowsBefore;
  constexpr int kStrip = kShared <= 1 ? 8 : kShared == 2 ? 24 : 64;
  return cut_pool<Tile>(cut, false, cut.depth, kPoolThreads, kStrip);
}
template <class Tile>
PoolGrid cut_max_pool_grad_recompute(PoolCut& cut) {
  return cut_pool<Tile>(cut, true, 1, kPoolThreads, Tile::kPlanar ? 16 : 32);
}

template <class T, class Tile>
__global__ void __launch_bounds__(kPoolThreads)
    max_pool_compact(PoolCut cut, PoolView<const T> x, PoolView<T> y, PoolView<std::uint8_t> winners) {
  const PoolPlace at = PoolPlace::find<Tile>(cut, 1);
  const int group = at.tile_group + static_cast<int>(at.group);
  const int window = group * Tile::kWindows;
  if (!at.here || window >= cut.out_width) return;
  Search<T, Tile> search;
  search.first_column = group * Tile::kColumns;
  search.x = at.in_plane(x, 0, search.first_column);
  T* y_to = at.in_plane(y, 0, window).data;
  std::uint8_t* winners_to = at.in_plane(winners, 0, window).data;
  constexpr int kElements = Tile::kChunk * Tile::kChannels;
  search.walk(cut, at.first_step, min(at.end_step, cut.out_height), [&](int r, const auto& best) {
#pragma unroll
    for (int i = 0; i < Tile::kWindows; i += Tile::kChunk) {
      if (window + i >= cut.out_width) continue;
      Chunk<T, kElements> y_chunk;
      Chunk<std::uint8_t, kElements> winners_chunk;
#pragma unroll
      for (int k = 0; k < kElements; ++k) {
        const int w = i + k / Tile::kChannels, c = k % Tile::kChannels;
        const bool none = best[w][c].none();
        y_chunk.at[k] = none ? minus_infinity<T>() : search.value(cut, r, w, c, best[w][c]);
        winners_chunk.at[k] = static_cast<std::uint8_t>(none ? kNoTap : best[w][c].winner());
      }
      store(y_to + r * y.row + i * y.column, y_chunk);
      store(winners_to + r * winners.row + i * winners.column, winners_chunk);
    }
  });
}

// *wrong, 0 before, becomes 1 where a stored winner is no tap of its window.
template <class T, class Tile, bool kVolume>
__global__ void __launch_bounds__(kPoolThreads)
    max_pool_grad_compact(PoolCut cut, PoolView<const T> dy, PoolView<const std::uint8_t> winners, PoolView<T> dx,
                          int* wrong) {
  using Window = typename Tile::Window;
  const PoolPlace at = PoolPlace::find<Tile>(cut, kVolume ? cut.depth : 1);
  if (!at.here) return;
  const int group = at.tile_group + static_cast<int>(at.group);
  const int depth = kVolume ? at.depth / cut.depth_stride : 0;
  const int depth_tap = kVolume ? at.depth - depth * cut.depth_stride : 0;
  Gather<T, Tile, true> gather;
  gather.first_column = group * Tile::kColumns;
  gather.dy = at.in_plane(dy, depth, group * Tile::kWindows);
  gather.winners = at.in_plane(winners, depth, group * Tile::kWindows);
  gather.dx = at.in_plane(dx, at.depth, gather.first_column);
  const bool reached = !kVolume || (depth < cut.out_depth && depth_tap < cut.depth_window);
  if constexpr (kVolume) {
    gather.first_tap = depth_tap * Window::kTaps;
    gather.existing_depths = 0;
    for (int k = 0; k < cut.depth_window && at.depth + k < cut.depth; ++k) {
      gather.existing_depths |= 1u << k * Window::kTaps;
    }
  }
  gather.window_rows = reached ? cut.out_height : 0;
  bool found_wrong = gather.walk(cut, at.first_step, at.end_step);
  if (kVolume) found_wrong &= depth_tap == 0;  // the other depths look at the same windows
  if (found_wrong) *wrong = 1;
}

// Bytes of shared memory for the winners of a block's windows.
template <class Tile>
std::uint32_t recompute_shared_bytes(const PoolCut& cut) {
  const std::uint32_t columns = (cut.tile_groups + Tile::kGroupsBefore + Tile::kGroupsAfter) * Tile::kWindows;
  const std::uint32_t rows = cut.strip + Tile::Window::kRowsBefore;
  return cut.units * rows * columns * cut.vectors * Tile::kChannels;
}

// The winners of a tile and of the windows beside it are found first, into shared memory.
template <class T, class Tile>
__global__ void __launch_bounds__(kPoolThreads)
    max_pool_grad_recompute(PoolCut cut, PoolView<const T> x, PoolView<const T> dy, PoolView<T> dx) {
  using Window = typename Tile::Window;
  extern __shared__ __align__(16) std::uint8_t shared_winners[];
  const PoolPlace at = PoolPlace::find<Tile>(cut, 1);
  const int columns = (static_cast<int>(cut.tile_groups) + Tile::kGroupsBefore + Tile::kGroupsAfter) * Tile::kWindows;
  const int column_bytes = static_cast<int>(cut.vectors) * Tile::kChannels;
  const int row_bytes = columns * column_bytes;
  const int unit_rows = cut.strip + Window::kRowsBefore;
  const int first_row = at.first_step - Window::kRowsBefore;
  // Where the winner of row 0 and column 0 would be, if they were kept.
  const int first_column = (at.tile_group - Tile::kGroupsBefore) * Tile::kWindows;
  const int origin = static_cast<int>(at.unit) * unit_rows * row_bytes - first_row * row_bytes -
                     first_column * column_bytes + static_cast<int>(at.vector) * Tile::kChannels;
  if (at.here) {
    const int all_groups = (cut.out_width + Tile::kWindows - 1) / Tile::kWindows;
    const int first_group = max(at.tile_group - Tile::kGroupsBefore, 0);
    const int end_group = min(at.tile_group + static_cast<int>(cut.tile_groups) + Tile::kGroupsAfter, all_groups);
    for (int group = first_group + static_cast<int>(at.group); group < end_group;
         group += static_cast<int>(cut.groups)) {
      Search<T, Tile> search;
      search.first_column = group * Tile::kColumns;
      search.x = at.in_plane(x, 0, search.first_column);
      const int end = min(at.end_step, cut.out_height);
      search.walk(cut, max(first_row, 0), end, [&](int r, const auto& best) {
#pragma unroll
        for (int i = 0; i < Tile::kWindows; i += Tile::kChunk) {
          Chunk<std::uint8_t, Tile::kChunk * Tile::kChannels> chunk;
#pragma unroll
          for (int k = 0; k < Tile::kChunk * Tile::kChannels; ++k) {
            const auto& found = best[i + k / Tile::kChannels][k % Tile::kChannels];
            chunk.at[k] = static_cast<std::uint8_t>(found.none() ? kNoTap : found.winner());
          }
          store(shared_winners + origin + r * row_bytes + (group * Tile::kWindows + i) * column_bytes, chunk);
        }
      });
    }
  }
  __syncthreads();
  if (!at.here || at.group >= cut.tile_groups) return;
  const int group = at.tile_group + static_cast<int>(at.group);
  Gather<T, Tile, false> gather;
  gather.first_column = group * Tile::kColumns;
  gather.dy = at.in_plane(dy, 0, group * Tile::kWindows);
  gather.winners = {shared_winners + origin + group * Tile::kWindows * column_bytes, 0, 0, 0, row_bytes, column_bytes};
  gather.dx = at.in_plane(dx, 0, gather.first_column);
  gather.window_rows = cut.out_height;
  gather.walk(cut, at.first_step, at.end_step);
}

}  // namespace bp::cuda
