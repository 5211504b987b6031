// SPDX-License-Identifier: Apache-2.0
// The gradient's sums. The walk goes down the window rows and keeps the sums of all rows of dx that the window row at
// hand reaches; each window of it asks for every tap whether that is its winner. So every sum gets its terms in
// ascending order, and a comparison with a constant and a predicated addition is all that a tap costs.
#pragma once

#include "ops/max_pool/cuda_cut.cuh"

namespace bp::cuda {

inline constexpr std::uint32_t kNoTap = 255;

// Whether stored winners are looked at for wrong ones.
enum class Check { no, yes };

// The existing ones of the taps that read from `start` on, each a bit, `kApart` bits apart. The product of those of the
// rows and of the columns has a bit for each existing tap of a window.
template <class Window, int kApart>
__device__ std::uint32_t existing_taps(int start, int size) {
  std::uint32_t taps = 0;
#pragma unroll
  for (int k = 0; k < Window::kSize; ++k) {
    const int position = start + k * Window::kDilation;
    if (position >= 0 && position < size) taps |= 1u << k * kApart;
  }
  return taps;
}

// A row of windows as it was read: dy and the numbers of the winning taps.
template <class T, class Tile>
struct WindowRow {
  static constexpr int kChunks = (Tile::kEnd - Tile::kFirst) / Tile::kChunk;
  static constexpr int kElements = Tile::kChunk * Tile::kChannels;
  Chunk<T, kElements> dy[kChunks];
  Chunk<std::uint8_t, kElements> winners[kChunks];
};

template <class T, class Tile>
class Gather {
  using Window = typename Tile::Window;
  static constexpr int kStride = Window::kStride;
  static constexpr int kRows = Window::kExtent;
  using Row = WindowRow<T, Tile>;

 public:
  // The first column's window row 0, for dy and winners; row 0 of dx, padded rows included, at the first column.
  const T* dy;
  std::int64_t dy_row, dy_column;
  const std::uint8_t* winners;
  std::int64_t winners_row, winners_column;
  T* dx;
  std::int64_t dx_row, dx_column;
  int first_column;                   // of dx
  std::uint32_t first_tap = 0;        // the number of tap 0 at this depth
  std::uint32_t existing_depths = 1;  // a bit for each, kTaps apart

  // kConstant: the winners are global memory that nobody writes.
  template <Check kCheck, bool kConstant>
  __device__ bool walk(const PoolCut& cut, int window_rows, int first_step, int end_step) {
    const int first_window = first_column / kStride;
#pragma unroll
    for (int i = 0; i < Row::kChunks; ++i) {
      const int window = first_window + Tile::kFirst + i * Tile::kChunk;
      exists_[i] = window >= 0 && window < cut.out_width;
    }
    std::uint32_t taps[Tile::kWindows];
#pragma unroll
    for (int i = 0; i < Tile::kWindows; ++i) {
      taps[i] = existing_depths * existing_taps<Window, 1>((first_window + i) * kStride - Window::kPadding, cut.width);
    }
    bool wrong = false;
    const int first_row = max(first_step - Window::kRowsBefore, 0);
    end_step = min(end_step, max((cut.height + cut.row_padding + kStride - 1) / kStride, cut.out_height));
    Row row;
#pragma unroll 2
    for (int r = first_row; r < end_step; ++r) {
      if (r < window_rows) {
        read<kConstant>(row, r);
        add(row);
        if (kCheck == Check::yes && r >= first_step) wrong |= has_wrong(row, taps, r, cut);
      }
      if (r >= first_step) write(r, cut);
      shift();
    }
    return wrong;
  }

 private:
  template <bool kConstant>
  __device__ void read(Row& row, int r) const {
    const T* from = dy + r * dy_row;
    const std::uint8_t* winners_from = winners + r * winners_row;
#pragma unroll
    for (int i = 0; i < Row::kChunks; ++i) {
      const int column = Tile::kFirst + i * Tile::kChunk;
      if (exists_[i]) {
        row.dy[i] = load_constant<Row::kElements>(from + column * dy_column);
        row.winners[i] = kConstant ? load_constant<Row::kElements>(winners_from + column * winners_column)
                                   : load<Row::kElements>(winners_from + column * winners_column);
      } else {
#pragma unroll
        for (int k = 0; k < Row::kElements; ++k) row.winners[i].at[k] = kNoTap;
      }
    }
  }

  __device__ void add(const Row& row) {
#pragma unroll
    for (int i = 0; i < Row::kChunks * Tile::kChunk; ++i) {
#pragma unroll
      for (int c = 0; c < Tile::kChannels; ++c) {
        const int element = i % Tile::kChunk + c;
        const float dy_value = widened(row.dy[i / Tile::kChunk].at[element]);
        const std::uint32_t tap = row.winners[i / Tile::kChunk].at[element] - first_tap;
#pragma unroll
        for (int k = 0; k < Window::kTaps; ++k) {
          const int column = (Tile::kFirst + i) * kStride - Window::kPadding + k % Window::kSize * Window::kDilation;
          if (column < 0 || column >= Tile::kColumns) continue;
          if (tap == k) sums_[k / Window::kSize * Window::kDilation][column][c] += dy_value;
        }
      }
    }
  }

  // Looks at the thread's own windows, which no other looks at.
  __device__ bool has_wrong(const Row& row, const std::uint32_t (&taps)[Tile::kWindows], int r,
                            const PoolCut& cut) const {
    const std::uint32_t rows = existing_taps<Window, Window::kSize>(r * kStride - cut.row_padding, cut.height);
    bool wrong = false;
#pragma unroll
    for (int i = 0; i < Tile::kWindows; ++i) {
      const int loaded = i - Tile::kFirst;
#pragma unroll
      for (int c = 0; c < Tile::kChannels; ++c) {
        const std::uint32_t tap = row.winners[loaded / Tile::kChunk].at[loaded % Tile::kChunk + c];
        wrong |= tap != kNoTap && (__funnelshift_rc(rows * taps[i], 0, tap) & 1) == 0;
      }
    }
    return wrong;
  }

  __device__ void write(int r, const PoolCut& cut) const {
#pragma unroll
    for (int s = 0; s < kStride; ++s) {
      const int row = r * kStride + s - cut.row_padding;
      if (row < 0 || row >= cut.height) continue;
      T* to = dx + row * dx_row;
#pragma unroll
      for (int i = 0; i < Tile::kColumns; i += Tile::kWide) {
        if (first_column + i >= cut.width) continue;
        Chunk<T, Tile::kWide * Tile::kChannels> chunk;
#pragma unroll
        for (int k = 0; k < Tile::kWide * Tile::kChannels; ++k) {
          chunk.at[k] = narrowed<T>(sums_[s][i + k / Tile::kChannels][k % Tile::kChannels]);
        }
        store(to + i * dx_column, chunk);
      }
    }
  }

  __device__ void shift() {
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
#pragma unroll
      for (int column = 0; column < Tile::kColumns; ++column) {
#pragma unroll
        for (int c = 0; c < Tile::kChannels; ++c) {
          sums_[row][column][c] =
              row + kStride < kRows ? sums_[row + kStride < kRows ? row + kStride : 0][column][c] : 0.0f;
        }
      }
    }
  }

  float sums_[kRows][Tile::kColumns][Tile::kChannels] = {};
  bool exists_[Row::kChunks];
};

}  // namespace bp::cuda
