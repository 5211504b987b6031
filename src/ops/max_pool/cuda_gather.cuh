// SPDX-License-Identifier: Apache-2.0
// The gradient's sums. The walk goes down the window rows and keeps the sums of all rows of dx that the window row at
// hand reaches; each window of it asks for every tap whether that is its winner. So every sum gets its terms in
// ascending order, and a comparison with a constant and a predicated addition is all that a tap costs.
#pragma once

#include "ops/max_pool/cuda_cut.cuh"

namespace bp::cuda {

// The existing ones of the taps that read from `start` on, each a bit, `kApart` bits apart. The product of those of the
// rows and of the columns has a bit for each existing tap of a window.
template <int kSize, int kDilation, int kApart>
__device__ std::uint32_t existing_taps(int start, int size) {
  std::uint32_t taps = 0;
#pragma unroll
  for (int k = 0; k < kSize; ++k) {
    const int position = start + k * kDilation;
    if (position >= 0 && position < size) taps |= 1u << k * kApart;
  }
  return taps;
}

// Adds where `tap` is the one asked for. As plain code it becomes an addition and a selection: an instruction more for
// every tap.
inline __device__ void add_if(std::uint32_t tap, std::uint32_t asked, float& sum, float value) {
  asm("{ .reg .pred p; setp.eq.u32 p, %1, %2; @p add.rn.f32 %0, %0, %3; }"
      : "+f"(sum)
      : "r"(tap), "r"(asked), "f"(value));
}

// A row of windows as it was read.
template <class T, class Tile>
struct WindowRow {
  static constexpr int kChunks = (Tile::kEnd - Tile::kFirst) / Tile::kChunk;
  static constexpr int kElements = Tile::kChunk * Tile::kChannels;
  RawChunk<T, kElements> dy[kChunks];
  RawChunk<std::uint8_t, kElements> winners[kChunks];
};

// kStored: the winners are tensor data, which may be wrong; otherwise they were found just now, into shared memory.
template <class T, class Tile, bool kStored>
class Gather {
  using Window = typename Tile::Window;
  using Row = WindowRow<T, Tile>;
  static constexpr int kStride = Window::kStride;
  static constexpr int kRows = Window::kSize;

 public:
  // The thread's first own window in window row 0 for dy and winners, its first column in row 0 for dx.
  PoolView<const T> dy;
  PoolView<const std::uint8_t> winners;
  PoolView<T> dx;
  int first_column;
  int window_rows;
  std::uint32_t first_tap = 0;        // the number of tap 0 at this depth
  std::uint32_t existing_depths = 1;  // a bit for each, kTaps apart

  // Whether a wrong winner was met.
  __device__ bool walk(const PoolCut& cut, int first_step, int end_step) {
    const int first_window = first_column / kStride;
#pragma unroll
    for (int i = 0; i < Row::kChunks; ++i) {
      const int window = first_window + Tile::kFirst + i * Tile::kChunk;
      exists_[i] = window >= first_existing<Window>(cut) && window < cut.out_width;
    }
#pragma unroll
    for (int i = 0; i < Tile::kWindows; ++i) {
      taps_[i] = 2 * existing_depths *
                 existing_taps<Window::kSize, Window::kDilation, 1>((first_window + i) * kStride - Window::kPadding,
                                                                    cut.width);
    }
    const int end = min(end_step, steps_of<Window>(cut));
    window_rows = min(window_rows, end);
    int r = max(first_step - Window::kRowsBefore, 0);
    dy.data += r * dy.row;
    winners.data += r * winners.row;
    dx.data += (r * kStride - cut.row_padding) * dx.row;
    Row row{}, next{};
    read(next, r);
    for (; r < end; ++r) {
      row = next;
      read(next, r + 1);
      if (kStored && r >= first_step) look_for_wrong(row, r, cut);
      add(row);
      if (r >= first_step) write(r, cut);
      dx.data += kStride * dx.row;
      shift();
    }
    return (all_right_ & 1) == 0;
  }

 private:
  __device__ void read(Row& row, int r) {
    const bool row_exists = r < window_rows;
#pragma unroll
    for (int i = 0; i < Row::kChunks; ++i) {
      const int window = Tile::kFirst + i * Tile::kChunk;
      const bool exists = row_exists && exists_[i];
      row.dy[i].load_if(exists, dy.template at_column<Tile>(window));
      row.winners[i].fill(kNoTap);
      const std::uint8_t* from = winners.template at_column<Tile>(window);
      if constexpr (kStored) {
        row.winners[i].load_if(exists, from);
      } else {
        row.winners[i].load_shared_if(exists, from);
      }
    }
    dy.data += dy.row;
    winners.data += winners.row;
    if constexpr (kStored && Tile::kPlanar) {  // or each chunk gets a pointer of its own
      keep(dy.data);
      keep(winners.data);
    }
  }

  // Looks at the thread's own windows, which no other thread looks at. Of a window's bits the lowest, which is set,
  // stands for no winner and the next ones for the taps.
  __device__ void look_for_wrong(const Row& row, int r, const PoolCut& cut) {
    const std::uint32_t row_taps =
        existing_taps<Window::kSize, 1, Window::kSize>(r * kStride - cut.row_padding, cut.height);
#pragma unroll
    for (int i = 0; i < Row::kChunks; ++i) {
      const auto winners_chunk = row.winners[i].chunk();
#pragma unroll
      for (int element = 0; element < Row::kElements; ++element) {
        const int window = Tile::kFirst + i * Tile::kChunk + element / Tile::kChannels;
        if (window < 0 || window >= Tile::kWindows) continue;
        const auto bit = static_cast<std::uint8_t>(winners_chunk.at[element] + 1);
        all_right_ &= __funnelshift_rc(row_taps * taps_[window] + 1, 0, bit);
      }
    }
  }

  __device__ void add(const Row& row) {
#pragma unroll
    for (int i = 0; i < Row::kChunks; ++i) {
      const auto dy_chunk = row.dy[i].chunk();
      const auto winners_chunk = row.winners[i].chunk();
#pragma unroll
      for (int element = 0; element < Row::kElements; ++element) {
        const int window = Tile::kFirst + i * Tile::kChunk + element / Tile::kChannels;
        const int channel = element % Tile::kChannels;
        const float value = widened(dy_chunk.at[element]);
        const std::uint32_t tap = winners_chunk.at[element] - first_tap;
#pragma unroll
        for (int k = 0; k < Window::kTaps; ++k) {
          const int column = window * kStride - Window::kPadding + k % Window::kSize * Window::kDilation;
          if (column < 0 || column >= Tile::kColumns) continue;
          add_if(tap, k, sums_[k / Window::kSize][column][channel], value);
        }
      }
    }
  }

  __device__ void write(int r, const PoolCut& cut) const {
#pragma unroll
    for (int s = 0; s < kStride; ++s) {
      const int row = r * kStride + s - cut.row_padding;
      if (row < 0 || row >= cut.height) continue;
#pragma unroll
      for (int i = 0; i < Tile::kColumns; i += Tile::kWide) {
        if (first_column + i >= cut.width) continue;
        Chunk<T, Tile::kWide * Tile::kChannels> chunk;
#pragma unroll
        for (int k = 0; k < Tile::kWide * Tile::kChannels; ++k) {
          chunk.at[k] = narrowed<T>(sums_[s][i + k / Tile::kChannels][k % Tile::kChannels]);
        }
        store(dx.template at_column<Tile>(i) + s * dx.row, chunk);
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
          sums_[row][column][c] = row + kStride < kRows ? sums_[(row + kStride) % kRows][column][c] : 0.0f;
        }
      }
    }
  }

  float sums_[kRows][Tile::kColumns][Tile::kChannels] = {};
  bool exists_[Row::kChunks];
  std::uint32_t taps_[Tile::kWindows];
  std::uint32_t all_right_ = 1;
};

}  // namespace bp::cuda
