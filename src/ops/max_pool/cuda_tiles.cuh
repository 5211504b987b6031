// SPDX-License-Identifier: Apache-2.0
// From a window, a tile and a type at run time to the kernel that is compiled for them.
#pragma once

#include "backends/cuda/chunk.cuh"
#include "backends/cuda/launch.cuh"
#include "ops/max_pool/cuda_cut.cuh"

#include <cstddef>
#include <type_traits>
#include <utility>

namespace bp::cuda {

inline constexpr int kPoolThreads = 256;

template <std::size_t kPlace, PoolTile kTile, class T, bool kSearchesOnly>
struct TileOf {
  static constexpr TiledWindow kWindow = kTiledWindows[kPlace];
  static constexpr int kColumns = tile_columns(kWindow, sizeof(T), kSearchesOnly);
  static constexpr int kWindows = tile_windows(kWindow, sizeof(T), kSearchesOnly);
  // Neighbouring columns share windows; half types leave registers for two of them.
  static constexpr int kBeside = kWindow.stride == 1 && kWindow.size == 3 && sizeof(T) == 2 ? 2 : kWindow.stride;
  static constexpr bool kPlanar = kTile == PoolTile::columns || kTile == PoolTile::odd_columns;
  using Of = Window<kWindow.size, kWindow.stride, kWindow.dilation, kWindow.padding, !kPlanar>;
  using type = std::conditional_t<
      kTile == PoolTile::columns, Tile<Of, kColumns, 1, kWindows, kColumns>,
      std::conditional_t<kTile == PoolTile::odd_columns, Tile<Of, 4, 1, 1, 1>,
                         std::conditional_t<kTile == PoolTile::channels, Tile<Of, kBeside, kTileChannels, 1, 1>,
                                            Tile<Of, kWindow.stride, 1, 1, 1>>>>;
};

template <class T>
PoolView<T> typed(const PoolView<std::conditional_t<std::is_const_v<T>, const void, void>>& view) {
  return {static_cast<T*>(view.data), view.batch, view.channel, view.depth, view.row, view.column};
}

// Calls run<T, Tile>(), which launches.
template <bool kSearchesOnly, class Run>
cudaError_t with_tile(const TiledPool& pool, const Run& run) {
  cudaError_t status = cudaErrorInvalidValue;
  const auto tile = [&]<class T, std::size_t kPlace>() {
    const auto as = [&]<PoolTile kTile>() {
      status = run.template operator()<T, typename TileOf<kPlace, kTile, T, kSearchesOnly>::type>();
    };
    switch (pool.tile) {
      case PoolTile::columns:
        return as.template operator()<PoolTile::columns>();
      case PoolTile::odd_columns:
        return as.template operator()<PoolTile::odd_columns>();
      case PoolTile::channels:
        return as.template operator()<PoolTile::channels>();
      case PoolTile::odd_channels:
        return as.template operator()<PoolTile::odd_channels>();
    }
  };
  const auto window = [&]<class T, std::size_t... kPlaces>(std::index_sequence<kPlaces...>) {
    ((pool.window == kPlaces ? tile.template operator()<T, kPlaces>() : void()), ...);
  };
  constexpr auto kPlaces = std::make_index_sequence<kTiledWindows.size()>{};
  with_type(pool.dtype, [&]<class T>() { window.template operator()<T>(kPlaces); });
  return status;
}

}  // namespace bp::cuda
