// SPDX-License-Identifier: Apache-2.0
// The gradient in tiles, from x: the winners of a tile and of the windows beside it are found first, into shared
// memory, and gathered from there.
#include "ops/max_pool/cuda_gather.cuh"
#include "ops/max_pool/cuda_search.cuh"
#include "ops/max_pool/cuda_tiles.cuh"

namespace bp::cuda {

namespace {

constexpr std::uint32_t kMostSharedBytes = 48 << 10;  // of a block that asks for nothing special

// The windows of a row that a block keeps.
template <class Tile>
__host__ __device__ int kept_windows(const PoolCut& cut) {
  return (static_cast<int>(cut.tile_groups) + Tile::kGroupsBefore + Tile::kGroupsAfter) * Tile::kWindows;
}
template <class Tile>
std::uint32_t shared_bytes(const PoolCut& cut) {
  const auto rows = static_cast<std::uint32_t>(cut.strip + Tile::Window::kRowsBefore);
  return cut.units * rows * static_cast<std::uint32_t>(kept_windows<Tile>(cut)) * cut.vectors * Tile::kChannels;
}

template <class T, class Tile>
__global__ void __launch_bounds__(kPoolThreads)
    recompute_tiles(const __grid_constant__ PoolCut problem, PoolView<const T> x, PoolView<const T> dy,
                    PoolView<T> dx) {
  using Window = typename Tile::Window;
  extern __shared__ __align__(16) std::uint8_t shared_winners[];
  const PoolPlace at = PoolPlace::find<Tile>(problem, Window::kClasses);
  const ClassCut<Window> cut = class_of<Window>(problem, at.layer);
  if constexpr (Window::kClasses > 1) {
    x = read_by_class<Window>(x, problem, cut, at.layer);
    dx = read_by_class<Window>(dx, problem, cut, at.layer);
    dy = windows_of_class<Window>(dy, cut, at.layer);
  }
  const int column_bytes = static_cast<int>(cut.vectors) * Tile::kChannels;
  const int row_bytes = kept_windows<Tile>(cut) * column_bytes;
  const int unit_rows = cut.strip + Window::kRowsBefore;
  const int first_row = at.first_step - Window::kRowsBefore;
  // Where the winners of a group of windows are kept, from row `first_row` on.
  const auto place_of = [&](int group) {
    const int column = (group - at.tile_group + Tile::kGroupsBefore) * Tile::kWindows;
    return shared_winners + static_cast<int>(at.unit) * unit_rows * row_bytes + column * column_bytes +
           static_cast<int>(at.vector) * Tile::kChannels;
  };
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
      std::uint8_t* to = place_of(group);
      search.walk(cut, max(first_row, 0), end, [&](int r, const auto& best) {
#pragma unroll
        for (int i = 0; i < Tile::kWindows; i += Tile::kChunk) {
          Chunk<std::uint8_t, Tile::kChunk * Tile::kChannels> chunk;
#pragma unroll
          for (int k = 0; k < Tile::kChunk * Tile::kChannels; ++k) {
            const auto& found = best[i + k / Tile::kChannels][k % Tile::kChannels];
            chunk.at[k] = static_cast<std::uint8_t>(found.none() ? kNoTap : found.winner());
          }
          store(to + (r - first_row) * row_bytes + i * column_bytes, chunk);
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
  // The walk counts rows from 0 on.
  gather.winners = {place_of(group) - std::int64_t{first_row} * row_bytes, 0, 0, 0, row_bytes, column_bytes};
  gather.dx = at.in_plane(dx, 0, gather.first_column);
  gather.window_rows = cut.out_height;
  gather.walk(cut, at.first_step, at.end_step);
}

}  // namespace

cudaError_t tiled_recompute(const TiledPool& pool, const ConstPoolView& x, const ConstPoolView& dy,
                            const MutablePoolView& dx, cudaStream_t stream) {
  return with_tile<false>(pool, [&]<class T, class Tile>() {
    if constexpr (!recomputes_at_once(Tile::Window::kPlain, Tile::kPlanar)) {
      return cudaErrorInvalidValue;
    } else {
      PoolCut cut = pool.problem;
      PoolGrid grid{};
      for (int strip = Tile::kPlanar ? 16 : 32;; strip /= 2) {
        grid = cut_pool<Tile>(cut, true, Tile::Window::kClasses, kPoolThreads, strip);
        if (shared_bytes<Tile>(cut) <= kMostSharedBytes || strip == 1) break;
      }
      return launch_blocks(stream, grid.blocks, grid.threads, shared_bytes<Tile>(cut), recompute_tiles<T, Tile>, cut,
                           typed<const T>(x), typed<const T>(dy), typed<T>(dx));
    }
  });
}

}  // namespace bp::cuda
