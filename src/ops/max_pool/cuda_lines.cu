// SPDX-License-Identifier: Apache-2.0
// Any windows, of which only the row and the column of a winner count: a thread keeps the sums of some neighbours of a
// row of dx in registers, and goes through all windows that reach one of them, in ascending order. Where a window's
// winner is in this row, it is in one of these columns or in none: to ask is a comparison for each.
#include "ops/max_pool/cuda_lines.h"

#include "backends/cuda/launch.cuh"
#include "ops/max_pool/cuda_gather.cuh"
#include "ops/max_pool/cuda_tiles.cuh"

namespace bp::cuda {

namespace {

// The windows that reach a position: from the first on, and before the end.
__device__ int first_window(const LineAxis& axis, int position) {
  const int least = position + axis.padding - axis.window + 1;
  return least <= 0 ? 0 : static_cast<int>(axis.stride.quotient(least + axis.stride.value - 1));
}
__device__ int end_window(const LineAxis& axis, int position) {
  return min(static_cast<int>(axis.stride.quotient(position + axis.padding)) + 1, axis.output);
}
// Where a window begins.
__device__ int begin_of(const LineAxis& axis, int window) {
  return window * static_cast<int>(axis.stride.value) - axis.padding;
}

// kStored: the winners are tensor data, which may be wrong. Each window is looked at where its first existing element
// is made.
template <class T, bool kStored>
__global__ void __launch_bounds__(kThreads)
    gather(const __grid_constant__ LinePool pool, PoolView<const T> dy, PoolView<const std::uint8_t> winners,
           PoolView<T> dx, WrongWinnersFound* found) {
  constexpr int kCount = kLineBytes / sizeof(T);
  const LineAxis &rows = pool.rows, &columns = pool.columns;
  std::uint32_t rest = blockIdx.x * kThreads + threadIdx.x;
  if (rest >= pool.threads) return;
  const int w = static_cast<int>(pool.vectors.split(rest)) * kCount;
  const int h = static_cast<int>(pool.all_rows.split(rest));
  const std::int64_t c = pool.channels.split(rest), n = rest;
  const int end_column = min(w + kCount, columns.input);

  float sums[kCount] = {};
  const int end_row = end_window(rows, h), first = first_window(columns, w), end = end_window(columns, end_column - 1);
  for (int r = first_window(rows, h); r < end_row; ++r) {
    const T* dy_row = dy.data + n * dy.batch + c * dy.channel + r * dy.row;
    const std::uint8_t* winners_row = winners.data + n * winners.batch + c * winners.channel + r * winners.row;
    const int row_begin = begin_of(rows, r);
    const int first_tap = (h - row_begin) * columns.window;  // of this row
    const bool looks = kStored && max(row_begin, 0) == h;
#pragma unroll 4
    for (int o = first; o < end; ++o) {
      const int tap = __ldg(winners_row + o);
      const float value = widened(dy_row[o]);
      const int begin = begin_of(columns, o), column = tap - first_tap;
      const bool is_here = static_cast<unsigned>(column) < static_cast<unsigned>(columns.window);
      const auto place = static_cast<std::uint32_t>(is_here ? begin + column - w : -1);
#pragma unroll
      for (int i = 0; i < kCount; ++i) add_if(place, i, sums[i], value);
      if (looks && tap != kNoTap && max(begin, 0) >= w && max(begin, 0) < end_column) {
        const int tap_row = static_cast<int>(pool.columns_of_window.quotient(tap));
        const int tap_column = tap - tap_row * columns.window;
        const bool exists = tap_row < rows.window && static_cast<unsigned>(row_begin + tap_row) < rows.input &&
                            static_cast<unsigned>(begin + tap_column) < columns.input;
        if (!exists) found->add(((n * pool.channels.value + c) * rows.output + r) * columns.output + o);
      }
    }
  }

  T* to = dx.data + n * dx.batch + c * dx.channel + h * dx.row + w;
  Chunk<T, kCount> chunk;
#pragma unroll
  for (int i = 0; i < kCount; ++i) chunk.at[i] = narrowed<T>(sums[i]);
  if (pool.in_vectors) {
    store(to, chunk);
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (w + i < columns.input) to[i] = chunk.at[i];
    }
  }
}

}  // namespace

cudaError_t gather_lines(const LinePool& pool, const ConstPoolView& winners, const ConstPoolView& dy,
                         const MutablePoolView& dx, WrongWinnersFound* found, cudaStream_t stream) {
  if (found != nullptr) {
    if (const cudaError_t status = cudaMemsetAsync(found, 0, sizeof *found, stream); status != cudaSuccess)
      return status;
  }
  return with_type(pool.dtype, [&]<class T>() {
    return launch(stream, pool.threads, found != nullptr ? gather<T, true> : gather<T, false>, pool, typed<const T>(dy),
                  typed<const std::uint8_t>(winners), typed<T>(dx), found);
  });
}

}  // namespace bp::cuda
