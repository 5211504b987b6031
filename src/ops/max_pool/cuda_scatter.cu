// SPDX-License-Identifier: Apache-2.0
// Wide windows: to ask each window for all its taps costs W*W questions for an element, but each window has one winner.
// So a thread owns one channel of a tile of dx and walks over the windows in ascending order, adding each dy to its
// winner's sum: the contract's order, and no other thread has a part in that sum. Sums wait in shared memory, in a ring
// of as many rows as a window has, where the 32 channels of a warp lie in 32 banks.
#include "ops/max_pool/cuda_scatter.h"

#include "backends/cuda/chunk.cuh"
#include "backends/cuda/launch.cuh"
#include "ops/max_pool/cuda_cut.cuh"
#include "ops/max_pool/cuda_tiles.cuh"

#include <algorithm>

namespace bp::cuda {

namespace {

constexpr int kLanes = 32;
constexpr int kAhead = 10;            // windows that are read together, while as many are added
constexpr int kNowhere = 0x40000000;  // the column of a tap that does not exist

// Where the sum of a tap is: the begin of its row in the ring, and its column from that of the window on.
struct alignas(8) TapPlace {
  int row, column;
};

// Of one channel.
template <class T>
struct Windows {
  RawChunk<T, 1> dy[kAhead];
  RawChunk<std::uint8_t, 1> winners[kAhead];
};

template <class T>
__global__ void __launch_bounds__(kLanes)
    scatter(const __grid_constant__ ScatterCut cut, PoolView<const T> dy, PoolView<const std::uint8_t> winners,
            PoolView<T> dx, WrongWinnersFound* found) {
  extern __shared__ __align__(16) unsigned char shared[];
  const ScatterAxis &rows = cut.rows, &columns = cut.columns;
  const int taps = rows.window * columns.window;
  auto* places = reinterpret_cast<TapPlace*>(shared);  // of each tap, and one more for all that are none
  const int lane = static_cast<int>(threadIdx.x);
  float* sums = reinterpret_cast<float*>(places + taps + 1) + lane;  // [row of the ring][column], kLanes apart

  std::uint32_t block = blockIdx.x;
  const int first_step = static_cast<int>(block % cut.strips) * cut.strip;
  block /= cut.strips;
  const std::uint32_t block_tile = block % cut.tiles;
  block /= cut.tiles;
  const std::uint32_t channel = block % cut.channel_blocks * kLanes + threadIdx.x;
  const std::int64_t batch = block / cut.channel_blocks;
  const bool here = channel < cut.channels;

  // The tile's columns of dx, and the windows that reach them.
  const int first_column = static_cast<int>(block_tile * cut.tile);
  const int width = min(cut.tile, columns.input - first_column);
  const bool first_tile = first_column == 0, last_tile = first_column + width == columns.input;
  const int first_window =
      first_tile ? 0 : max(ceil_div(first_column + columns.padding - columns.extent + 1, columns.stride), 0);
  const int end_window = last_tile
                             ? columns.output
                             : min((first_column + width - 1 + columns.padding) / columns.stride + 1, columns.output);
  // The first that begins in this tile: those before it are looked at elsewhere.
  const int first_own = first_tile ? 0 : ceil_div(first_column + columns.padding, columns.stride);
  const int end_step = min(first_step + cut.strip, max(ceil_div(rows.input + rows.padding, rows.stride), rows.output));
  const int first_row = max(first_step - (rows.extent - 1) / rows.stride, 0);  // of windows
  const int end_row = min(end_step, rows.output);

  const T* dy_from = dy.data + batch * dy.batch + channel * dy.channel;
  const std::uint8_t* winners_from = winners.data + batch * winners.batch + channel * winners.channel;
  T* to = dx.data + batch * dx.batch + channel * dx.channel + first_column * dx.column;

  const auto read = [&](Windows<T>& raw, int r, int w) {
    const T* dy_at = dy_from + r * dy.row + w * dy.column;
    const std::uint8_t* winners_at = winners_from + r * winners.row + w * winners.column;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const bool exists = here && r < end_row && w + i < end_window;
      raw.dy[i].load_if(exists, dy_at);
      raw.winners[i].load_if(exists, winners_at);
      dy_at += dy.column;
      winners_at += winners.column;
      keep(dy_at);
      keep(winners_at);
    }
  };

  // Looks again at windows among which some have no winner, or a wrong one.
  const auto report_wrong = [&](int r, int first) {
    for (int w = max(first, first_own); w < min(first + kAhead, end_window); ++w) {
      const int tap = winners_from[r * winners.row + w * winners.column];
      const int column = w * columns.stride - columns.padding + places[min(tap, taps)].column;
      if (tap == kNoTap || (column >= 0 && column < columns.input)) continue;
      found->add(((batch * cut.channels + channel) * rows.output + r) * columns.output + w);
    }
  };

  for (int i = 0; i < rows.extent * width; ++i) sums[i * kLanes] = 0;
  Windows<T> next{};
  int next_row = first_row, next_window = first_window;
  const auto read_next = [&] {
    read(next, next_row, next_window);
    next_window += kAhead;
    if (next_window < end_window) return;
    next_window = first_window;
    ++next_row;
  };
  read_next();

  int phase = first_row * rows.stride % rows.extent;  // where the window row at hand begins in the ring
  for (int r = first_row; r < end_step; ++r) {
    if (r < end_row) {
      __syncwarp();
      for (int tap = lane; tap <= taps; tap += kLanes) {
        const int from_top = tap / columns.window * rows.dilation;
        const int row = r * rows.stride - rows.padding + from_top;
        const int in_ring = phase + from_top - (phase + from_top >= rows.extent ? rows.extent : 0);
        const bool exists = tap < taps && row >= 0 && row < rows.input;
        places[tap] = {in_ring * width * kLanes, exists ? tap % columns.window * columns.dilation : kNowhere};
      }
      __syncwarp();
      for (int w = first_window; w < end_window; w += kAhead) {
        const Windows<T> at = next;
        read_next();
        bool all_right = true;
        const int first = w * columns.stride - columns.padding;  // column of tap 0
#pragma unroll
        for (int i = 0; i < kAhead; ++i) {
          if (w + i >= end_window) break;
          const TapPlace place = places[min(static_cast<int>(at.winners[i].chunk().at[0]), taps)];
          const int column = first + i * columns.stride + place.column;
          const int in_tile = column - first_column;
          if (static_cast<unsigned>(in_tile) < static_cast<unsigned>(width)) {
            sums[place.row + in_tile * kLanes] += widened(at.dy[i].chunk().at[0]);
          }
          all_right &= static_cast<unsigned>(column) < static_cast<unsigned>(columns.input);
        }
        if (!all_right && here && r >= first_step) report_wrong(r, w);
      }
    }
    // The rows that no later window reaches.
    for (int s = 0; s < rows.stride; ++s) {
      const int row = r * rows.stride + s - rows.padding;
      const int in_ring = phase + s - (phase + s >= rows.extent ? rows.extent : 0);
      const bool writes = here && r >= first_step && row >= 0 && row < rows.input;
      float* sum = sums + in_ring * width * kLanes;
      T* column_to = to + row * dx.row;
#pragma unroll 4
      for (int i = 0; i < width; ++i) {
        if (writes) *column_to = narrowed<T>(*sum);
        *sum = 0;
        sum += kLanes;
        column_to += dx.column;
      }
    }
    phase += rows.stride;
    phase -= phase >= rows.extent ? rows.extent : 0;
  }
}

}  // namespace

bool cut_scatter(ScatterPool& pool) {
  // So many bytes leave room for 16 warps on a multiprocessor of 228 KiB; a tile narrower than the windows that reach
  // it from outside reads too much twice.
  constexpr std::int64_t kAimedBytes = 12800, kMostBytes = 99 << 10;
  constexpr std::uint64_t kAimedBlocks = 1024;
  ScatterCut& cut = pool.cut;
  const ScatterAxis &rows = cut.rows, &columns = cut.columns;
  const int steps = std::max(ceil_div(rows.input + rows.padding, rows.stride), rows.output);
  const std::int64_t column_bytes = std::int64_t{rows.extent} * kLanes * 4;
  const std::int64_t most = std::max<std::int64_t>(kAimedBytes / column_bytes, 2 * columns.extent);
  cut.tiles = divide_up(columns.input, most);
  cut.tile = static_cast<int>(divide_up(columns.input, cut.tiles));
  const std::int64_t bytes =
      cut.tile * column_bytes + (std::int64_t{rows.window} * columns.window + 1) * std::int64_t{sizeof(TapPlace)};
  if (bytes > kMostBytes) return false;
  pool.shared_bytes = static_cast<std::uint32_t>(bytes);
  cut.channel_blocks = divide_up(cut.channels, kLanes);
  const std::uint64_t planes = std::uint64_t{cut.batch} * cut.channel_blocks * cut.tiles;
  int strip = steps;
  while (strip > 2 * rows.extent && planes * divide_up(steps, strip) < kAimedBlocks) strip = (strip + 1) / 2;
  cut.strips = divide_up(steps, strip);
  cut.strip = static_cast<int>(divide_up(steps, cut.strips));
  pool.blocks = planes * cut.strips;
  return pool.blocks <= kMostBlocks;
}

cudaError_t prepare_scatter(const ScatterPool& pool) {
  return with_type(pool.dtype, [&]<class T>() {
    return cudaFuncSetAttribute(scatter<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                static_cast<int>(pool.shared_bytes));
  });
}

cudaError_t scatter_channels(const ScatterPool& pool, const ConstPoolView& winners, const ConstPoolView& dy,
                             const MutablePoolView& dx, WrongWinnersFound* found, cudaStream_t stream) {
  if (const cudaError_t status = cudaMemsetAsync(found, 0, sizeof *found, stream); status != cudaSuccess) return status;
  return with_type(pool.dtype, [&]<class T>() {
    return launch_blocks(stream, pool.blocks, kLanes, pool.shared_bytes, scatter<T>, pool.cut, typed<const T>(dy),
                         typed<const std::uint8_t>(winners), typed<T>(dx), found);
  });
}

}  // namespace bp::cuda
