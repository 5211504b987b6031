// SPDX-License-Identifier: Apache-2.0
// Max pooling in tiles: each thread walks down its strip and stores what it finds, values, winners or both.
#include "ops/max_pool/cuda_search.cuh"
#include "ops/max_pool/cuda_tiles.cuh"

namespace bp::cuda {

namespace {

template <class T, class Tile, bool kValues, bool kWinners>
__global__ void __launch_bounds__(kPoolThreads)
    search_tiles(const PoolCut problem, PoolView<const T> x, PoolView<T> y, PoolView<std::uint8_t> winners) {
  using Window = typename Tile::Window;
  const PoolPlace at = PoolPlace::find<Tile>(problem, Window::kClasses);
  const ClassCut<Window> cut = class_of<Window>(problem, at.layer);
  const int group = at.tile_group + static_cast<int>(at.group);
  const int window = group * Tile::kWindows;
  if (!at.here || window >= cut.out_width) return;
  Search<T, Tile> search;
  search.first_column = group * Tile::kColumns;
  if constexpr (Window::kClasses > 1) {
    x = read_by_class<Window>(x, problem, cut, at.layer);
    y = windows_of_class<Window>(y, cut, at.layer);
    winners = windows_of_class<Window>(winners, cut, at.layer);
  }
  search.x = at.in_plane(x, 0, search.first_column);
  T* y_to = at.in_plane(y, 0, window).data;
  std::uint8_t* winners_to = at.in_plane(winners, 0, window).data;
  constexpr int kElements = Tile::kChunk * Tile::kChannels;
  search.walk(cut, at.first_step, min(at.end_step, cut.out_height), [&](int r, const auto& best) {
#pragma unroll
    for (int i = 0; i < Tile::kWindows; i += Tile::kChunk) {
      if (window + i >= cut.out_width) continue;
      if (Window::kColumnClasses > 1 && window + i < cut.first_window) continue;
      [[maybe_unused]] Chunk<T, kElements> y_chunk;
      Chunk<std::uint8_t, kElements> winners_chunk;
#pragma unroll
      for (int k = 0; k < kElements; ++k) {
        const int w = i + k / Tile::kChannels, c = k % Tile::kChannels;
        const bool none = best[w][c].none();
        if constexpr (kValues) {
          y_chunk.at[k] = none ? minus_infinity<T>() : search.value(cut, r, w, c, best[w][c]);
        }
        winners_chunk.at[k] = static_cast<std::uint8_t>(none ? kNoTap : best[w][c].winner());
      }
      if constexpr (kValues) store(y_to + r * y.row + i * y.column, y_chunk);
      if constexpr (kWinners) store(winners_to + r * winners.row + i * winners.column, winners_chunk);
    }
  });
}

}  // namespace

cudaError_t tiled_search(const TiledPool& pool, const ConstPoolView& x, const MutablePoolView& y,
                         const MutablePoolView& winners, cudaStream_t stream) {
  return with_tile<true>(pool, [&]<class T, class Tile>() {
    PoolCut cut = pool.problem;
    // Long strips share few rows with their neighbours, short ones are many threads.
    const PoolGrid grid = cut_pool<Tile>(cut, false, Tile::Window::kClasses, kPoolThreads, 16);
    const auto kernel = winners.data == nullptr ? search_tiles<T, Tile, true, false>
                        : y.data == nullptr     ? search_tiles<T, Tile, false, true>
                                                : search_tiles<T, Tile, true, true>;
    return launch_blocks(stream, grid.blocks, grid.threads, 0, kernel, cut, typed<const T>(x), typed<T>(y),
                         typed<std::uint8_t>(winners));
  });
}

}  // namespace bp::cuda
