// SPDX-License-Identifier: Apache-2.0
// The gradient in tiles, from stored winners.
#include "ops/max_pool/cuda_gather.cuh"
#include "ops/max_pool/cuda_tiles.cuh"

namespace bp::cuda {

namespace {

// Planes have depths, or classes.
template <class Tile, bool kVolume>
__host__ __device__ int layers_of(const PoolCut& cut) {
  return kVolume ? cut.depth : Tile::Window::kClasses;
}

// Counts those of a thread's own windows whose winner is wrong, once more and one by one: there are none as a rule, so
// this finds its place itself, instead of having it kept in memory for it.
template <class Tile, bool kVolume>
__device__ __noinline__ void report_wrong(const PoolCut& problem, PoolView<const std::uint8_t> winners,
                                          WrongWinnersFound* found) {
  using Window = typename Tile::Window;
  const PoolPlace at = PoolPlace::find<Tile>(problem, layers_of<Tile, kVolume>(problem));
  const int number = kVolume ? 0 : at.layer;  // of its class
  const ClassCut<Window> cut = class_of<Window>(problem, number);
  const int out_depth = kVolume ? at.layer / cut.depth_stride : 0;
  const int first_window = (at.tile_group + static_cast<int>(at.group)) * Tile::kWindows;
  const auto exists = [](int position, int size) { return position >= 0 && position < size; };
  winners = at.in_plane(windows_of_class<Window>(winners, cut, number), out_depth, 0);
  for (int r = at.first_step; r < min(at.end_step, cut.out_height); ++r) {
    for (int w = max(first_window, first_existing<Window>(cut)); w < min(first_window + Tile::kWindows, cut.out_width);
         ++w) {
      for (int c = 0; c < Tile::kChannels; ++c) {
        const int tap = winners.data[r * winners.row + w * winners.column + c * winners.channel];
        if (tap == kNoTap) continue;
        const int depth_tap = tap / Window::kTaps;
        const int row = r * Window::kStride - cut.row_padding + tap / Window::kSize % Window::kSize;
        const int column = w * Window::kStride - Window::kPadding + tap % Window::kSize * Window::kDilation;
        if (depth_tap < cut.depth_window && exists(out_depth * cut.depth_stride + depth_tap, cut.depth) &&
            exists(row, cut.height) && exists(column, cut.width)) {
          continue;
        }
        const std::int64_t plane = std::int64_t{at.batch} * cut.channels + at.channel + c;
        const int window_row = number % Window::kRowClasses + r * Window::kRowClasses;
        const int window_column =
            number / Window::kRowClasses + (w - first_existing<Window>(cut)) * Window::kColumnClasses;
        const std::int64_t window =
            ((plane * cut.out_depth + out_depth) * problem.out_height + window_row) * problem.out_width + window_column;
        found->add(window);
      }
    }
  }
}

template <class T, class Tile, bool kVolume>
__global__ void __launch_bounds__(kPoolThreads)
    gather_tiles(const __grid_constant__ PoolCut problem, PoolView<const T> dy, PoolView<const std::uint8_t> winners,
                 PoolView<T> dx, WrongWinnersFound* found) {
  using Window = typename Tile::Window;
  const PoolPlace at = PoolPlace::find<Tile>(problem, layers_of<Tile, kVolume>(problem));
  if (!at.here) return;
  const int group = at.tile_group + static_cast<int>(at.group);
  const ClassCut<Window> cut = class_of<Window>(problem, at.layer);
  const int dx_depth = kVolume ? at.layer : 0;
  const int depth = kVolume ? dx_depth / cut.depth_stride : 0;
  const int depth_tap = kVolume ? dx_depth - depth * cut.depth_stride : 0;
  Gather<T, Tile, true> gather;
  gather.first_column = group * Tile::kColumns;
  PoolView<const std::uint8_t> class_winners = winners;
  if constexpr (Window::kClasses > 1) {
    dy = windows_of_class<Window>(dy, cut, at.layer);
    class_winners = windows_of_class<Window>(winners, cut, at.layer);
    dx = read_by_class<Window>(dx, problem, cut, at.layer);
  }
  gather.dy = at.in_plane(dy, depth, group * Tile::kWindows);
  gather.winners = at.in_plane(class_winners, depth, group * Tile::kWindows);
  gather.dx = at.in_plane(dx, dx_depth, gather.first_column);
  const bool reached = !kVolume || (depth < cut.out_depth && depth_tap < cut.depth_window);
  if constexpr (kVolume) {
    gather.first_tap = depth_tap * Window::kTaps;
    gather.existing_depths = 0;
    for (int k = 0; k < cut.depth_window && dx_depth + k < cut.depth; ++k) {
      gather.existing_depths |= 1u << k * Window::kTaps;
    }
  }
  gather.window_rows = reached ? cut.out_height : 0;
  bool wrong = gather.walk(cut, at.first_step, at.end_step);
  if (kVolume) wrong &= depth_tap == 0;  // the other depths look at the same windows
  if (wrong) report_wrong<Tile, kVolume>(problem, winners, found);
}

}  // namespace

cudaError_t tiled_gather(const TiledPool& pool, const ConstPoolView& winners, const ConstPoolView& dy,
                         const MutablePoolView& dx, WrongWinnersFound* found, cudaStream_t stream) {
  if (const cudaError_t status = cudaMemsetAsync(found, 0, sizeof *found, stream); status != cudaSuccess) return status;
  return with_tile<false>(pool, [&]<class T, class Tile>() {
    PoolCut cut = pool.problem;
    constexpr int kShared = Tile::Window::kRowsBefore;
    constexpr int kStrip = kShared <= 1 ? 8 : kShared == 2 ? 24 : 64;
    const int layers = std::max(cut.depth, Tile::Window::kClasses);  // not both
    const PoolGrid grid = cut_pool<Tile>(cut, false, layers, kPoolThreads, kStrip);
    auto kernel = gather_tiles<T, Tile, false>;
    if constexpr (tiles_volumes(Tile::Window::kPlain)) {
      if (cut.depth > 1) kernel = gather_tiles<T, Tile, true>;
    }
    return launch_blocks(stream, grid.blocks, grid.threads, 0, kernel, cut, typed<const T>(dy),
                         typed<const std::uint8_t>(winners), typed<T>(dx), found);
  });
}

}  // namespace bp::cuda
