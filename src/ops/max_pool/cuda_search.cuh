// SPDX-License-Identifier: Apache-2.0
// The search for winners: of each row of x the greatest value and its leftmost tap for every window, then of the rows
// of a window the greatest and its topmost. That keeps the contract's choice among equals at 2W comparisons instead of
// W*W; the rows that windows share are searched once.
#pragma once

#include "ops/max_pool/cuda_cut.cuh"

#include <climits>

namespace bp::cuda {

// The best tap so far, by an integer that orders values as the contract does: NaN above all, -0 and +0 alike. INT_MIN,
// below every value, stands for taps that do not exist.
template <class T>
struct Best;

template <>
struct Best<float> {
  int key = INT_MIN;
  int tap = 0;

  static __device__ int key_of(float v) {
    const int bits = __float_as_int(v + 0.0f);  // -0 becomes +0, and every NaN the one whose bits are INT_MAX
    return bits ^ (bits >> 31 & INT_MAX);
  }
  static __device__ Best first(int key) { return {key, 0}; }
  // `tap` comes after all that were compared.
  __device__ void compare(int other_key, int other_tap) {
    if (other_key > key) {
      key = other_key;
      tap = other_tap;
    }
  }
  __device__ void compare(const Best& other, int first_tap) { compare(other.key, other.tap + first_tap); }
  __device__ bool none() const { return key == INT_MIN; }
  __device__ int winner() const { return tap; }
  // A NaN or a zero, of which the key does not tell the bits.
  __device__ bool vague() const { return key == INT_MAX || key == 0; }
  __device__ float value() const { return __int_as_float(key ^ (key >> 31 & INT_MAX)); }
};

// The half types leave room for the tap below the value: the lower the tap the greater, so that one maximum does all.
struct PackedBest {
  int packed = INT_MIN | kMostTap;

  static constexpr int kMostTap = 0xffff;
  static __device__ PackedBest first(int key) { return {key | kMostTap}; }
  __device__ void compare(int other_key, int other_tap) { packed = max(packed, other_key | (kMostTap - other_tap)); }
  __device__ void compare(const PackedBest& other, int first_tap) { packed = max(packed, other.packed - first_tap); }
  __device__ bool none() const { return packed <= (INT_MIN | kMostTap); }
  __device__ int winner() const { return kMostTap - (packed & kMostTap); }
  __device__ bool vague() const { return packed >> 16 == SHRT_MAX || packed >> 16 == 0; }

 protected:
  __device__ unsigned short value_bits() const {
    return static_cast<unsigned short>((packed ^ (packed >> 31 & 0x7fff0000)) >> 16);
  }
  // Of bits whose NaN and zero are the only ones, in the upper half of the integer.
  static __device__ int key_of_bits(unsigned short bits) {
    const int high = bits << 16;
    return high ^ (high >> 31 & 0x7fff0000);
  }
};

// Adding +0 makes every NaN the one positive NaN, greater than infinity in bits too, and -0 +0.
template <>
struct Best<__half> : PackedBest {
  static __device__ int key_of(__half v) { return key_of_bits(__half_as_ushort(__hadd(v, __ushort_as_half(0)))); }
  static __device__ Best first(int key) { return {PackedBest::first(key)}; }
  __device__ __half value() const { return __ushort_as_half(value_bits()); }
};
template <>
struct Best<__nv_bfloat16> : PackedBest {
  static __device__ int key_of(__nv_bfloat16 v) {
    return key_of_bits(__bfloat16_as_ushort(__hadd(v, __ushort_as_bfloat16(0))));
  }
  static __device__ Best first(int key) { return {PackedBest::first(key)}; }
  __device__ __nv_bfloat16 value() const { return __ushort_as_bfloat16(value_bits()); }
};

template <class T, class Tile>
class Search {
  using Window = typename Tile::Window;
  using Bests = Best<T>[Tile::kWindows][Tile::kChannels];
  static constexpr int kStride = Window::kStride;
  static constexpr int kRows = Window::kSize;
  static constexpr int kChunks = (Tile::kHigh - Tile::kLow) / Tile::kWide;
  static constexpr int kElements = Tile::kWide * Tile::kChannels;
  // Where many registers let few threads run, the next row is under way while one is searched.
  static constexpr bool kReadsAhead = Tile::kChannels > 1 && Window::kStride == 1;

 public:
  PoolView<const T> x;  // the first column of row 0
  int first_column;

  // Calls found(window row, best[window][channel]) for the window rows [first, end).
  template <class Found>
  __device__ void walk(const PoolCut& cut, int first, int end, Found found) {
    if (first >= end) return;
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const int column = first_column + Tile::kLow + i * Tile::kWide;
      exists_[i] = column >= 0 && column < cut.width;
    }
    int row = first * kStride - cut.row_padding;
    PoolView<const T> from = x;
    from.data += row * x.row;
    if constexpr (kRows > kStride) {
      Row above[kRows - kStride] = {};
      read(above, cut, row, from);
#pragma unroll
      for (int i = 0; i < kRows - kStride; ++i) search(above[i], rows_[kStride + i]);
    }
    Row next[kStride] = {};
    if constexpr (kReadsAhead) read(next, cut, row, from);
    for (int r = first; r < end; ++r) {
      Row below[kStride] = {};
      if constexpr (kReadsAhead) {
#pragma unroll
        for (int i = 0; i < kStride; ++i) below[i] = next[i];
        if (r + 1 < end) read(next, cut, row, from);
      } else {
        read(below, cut, row, from);
      }
      shift();
#pragma unroll
      for (int i = 0; i < kStride; ++i) search(below[i], rows_[kRows - kStride + i]);
      Bests best;
#pragma unroll
      for (int i = 0; i < Tile::kWindows; ++i) {
#pragma unroll
        for (int c = 0; c < Tile::kChannels; ++c) {
          best[i][c] = rows_[0][i][c];
#pragma unroll
          for (int k = 1; k < Window::kSize; ++k) {
            best[i][c].compare(rows_[k][i][c], k * Window::kSize);
          }
        }
      }
      found(r, best);
    }
  }

  // The value of a winner, all its bits.
  __device__ T value(const PoolCut& cut, int r, int window, int channel, const Best<T>& best) const {
    // Where the search needs many registers, the branch costs more than the load.
    constexpr bool kFromKey = Tile::kPlanar || sizeof(T) == 2 || Window::kSize == 2;
    if (kFromKey && !best.vague()) return best.value();
    const int tap = best.winner();
    const int row = r * kStride - cut.row_padding + tap / Window::kSize;
    const int column = window * kStride - Window::kPadding + tap % Window::kSize * Window::kDilation;
    return x.template at_column<Tile>(column)[row * x.row + channel];
  }

 private:
  // A row of x as it was read.
  struct Row {
    RawChunk<T, kElements> chunks[kChunks];
    bool exists;
  };

  // The next rows.
  template <int kCount>
  __device__ void read(Row (&rows)[kCount], const PoolCut& cut, int& row, PoolView<const T>& from) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      rows[i].exists = row >= 0 && row < cut.height;
#pragma unroll
      for (int k = 0; k < kChunks; ++k) {
        const int column = Tile::kLow + k * Tile::kWide;
        rows[i].chunks[k].load_if(rows[i].exists && exists_[k], from.template at_column<Tile>(column));
      }
      ++row;
      from.data += x.row;
    }
  }

  __device__ void search(const Row& row, Bests& best) const {
    int keys[kChunks * Tile::kWide][Tile::kChannels];
#pragma unroll
    for (int i = 0; i < kChunks; ++i) {
      const auto chunk = row.chunks[i].chunk();
#pragma unroll
      for (int k = 0; k < kElements; ++k) {
        keys[i * Tile::kWide + k / Tile::kChannels][k % Tile::kChannels] =
            row.exists && exists_[i] ? Best<T>::key_of(chunk.at[k]) : INT_MIN;
      }
    }
#pragma unroll
    for (int i = 0; i < Tile::kWindows; ++i) {
#pragma unroll
      for (int c = 0; c < Tile::kChannels; ++c) {
        const int column = i * kStride - Window::kPadding - Tile::kLow;
        best[i][c] = Best<T>::first(keys[column][c]);
#pragma unroll
        for (int k = 1; k < Window::kSize; ++k) best[i][c].compare(keys[column + k * Window::kDilation][c], k);
      }
    }
  }

  __device__ void shift() {
#pragma unroll
    for (int row = 0; row + kStride < kRows; ++row) {
#pragma unroll
      for (int i = 0; i < Tile::kWindows; ++i) {
#pragma unroll
        for (int c = 0; c < Tile::kChannels; ++c) rows_[row][i][c] = rows_[row + kStride][i][c];
      }
    }
  }

  Bests rows_[kRows];
  bool exists_[kChunks];
};

}  // namespace bp::cuda
