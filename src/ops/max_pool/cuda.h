// SPDX-License-Identifier: Apache-2.0
// The kernels of max pooling, as the host calls them. They only put work on the stream.
#pragma once

#include "backends/cuda/divisor.h"
#include "core/tensor.h"
#include "ops/max_pool/winners.h"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>

namespace bp::cuda {

// Kernels exist twice: for problems whose elements, planes and windows can be counted in 32 bits, and for all. Pointers
// to planes are of 64 bits in both.

// The elements of a {N, C, D, H, W} tensor by number. Neighbouring threads take neighbouring numbers, so these follow
// the tensor's memory, be its channels outside of the spatial axes or inside.
template <class Int>
struct PoolOrder {
  using Unsigned = std::make_unsigned_t<Int>;
  std::int64_t count = 0;
  bool channels_last = false;
  Divisor<Unsigned> channels{}, spatial[3]{};

  [[nodiscard]] constexpr BasicWindowIndex<Int> at(std::int64_t item) const {
    BasicWindowIndex<Int> w;
    auto rest = static_cast<Unsigned>(item);
    if (channels_last) w.c = static_cast<std::int64_t>(channels.split(rest));
    for (int i = 2; i >= 0; --i) w.o[i] = static_cast<Int>(spatial[i].split(rest));
    if (!channels_last) w.c = static_cast<std::int64_t>(channels.split(rest));
    w.n = static_cast<std::int64_t>(rest);
    return w;
  }
};

template <class Int>
struct PoolStrides {
  std::int64_t n = 0, c = 0;
  BasicSpatial<Int> spatial{};

  [[nodiscard]] constexpr std::int64_t plane(const BasicWindowIndex<Int>& w) const { return w.n * n + w.c * c; }
  [[nodiscard]] constexpr Int inside(const BasicSpatial<Int>& p) const {
    return p[0] * spatial[0] + p[1] * spatial[1] + p[2] * spatial[2];
  }
  [[nodiscard]] constexpr std::int64_t at(const BasicWindowIndex<Int>& w) const { return plane(w) + inside(w.o); }
};

// The windows of one axis that reach a position: [first, end), where some may step over it.
template <class Int>
struct ReachingWindows {
  using Unsigned = std::make_unsigned_t<Int>;
  Int output = 1, start_padding = 0, reach = 0;  // reach: the extent less 1
  Divisor<Unsigned> stride{}, dilation{};

  [[nodiscard]] constexpr Int first(Int p) const {
    const Int least = p + start_padding - reach;
    if (least <= 0) return 0;
    return static_cast<Int>(stride.quotient(static_cast<Unsigned>(least) + stride.value - 1));
  }
  [[nodiscard]] constexpr Int end(Int p) const {
    const auto all = static_cast<Int>(stride.quotient(static_cast<Unsigned>(p + start_padding))) + 1;
    return all < output ? all : output;
  }
  // The tap of such a window that reads p, -1 when none does.
  [[nodiscard]] constexpr Int tap(Int o, Int p) const {
    const auto distance = static_cast<Unsigned>(p + start_padding - o * static_cast<Int>(stride.value));
    const Unsigned k = dilation.quotient(distance);
    return k * dilation.value == distance ? static_cast<Int>(k) : -1;
  }
};

// Stored winners of any type, which is no part of a kernel's type: -1 for none, below that for no number at all.
template <class Int>
struct IndexTensor {
  WinnersKind kind = WinnersKind::none;
  int size = 1;  // bytes of an index
  bool is_signed = false;
  PoolStrides<Int> strides{};

  [[nodiscard]] constexpr std::int64_t load(const void* data, std::int64_t at) const {
    switch (size) {
      case 1:
        return unsigned_index(static_cast<const std::uint8_t*>(data)[at]);
      case 2:
        return unsigned_index(static_cast<const std::uint16_t*>(data)[at]);
      case 4:
        if (is_signed) return static_cast<const std::int32_t*>(data)[at];
        return unsigned_index(static_cast<const std::uint32_t*>(data)[at]);
      default:
        return static_cast<const std::int64_t*>(data)[at];
    }
  }
  // -1 becomes the all ones of every type.
  constexpr void store(void* data, std::int64_t at, std::int64_t index) const {
    switch (size) {
      case 1:
        static_cast<std::uint8_t*>(data)[at] = static_cast<std::uint8_t>(index);
        return;
      case 2:
        static_cast<std::uint16_t*>(data)[at] = static_cast<std::uint16_t>(index);
        return;
      case 4:
        static_cast<std::uint32_t*>(data)[at] = static_cast<std::uint32_t>(index);
        return;
      default:
        static_cast<std::int64_t*>(data)[at] = index;
    }
  }

 private:
  template <class Index>
  static constexpr std::int64_t unsigned_index(Index stored) {
    return stored == kNoWinner<Index> ? -1 : static_cast<std::int64_t>(stored);
  }
};

// What a run leaves in its workspace of stored winners that are no tap of their window. All zero: none.
struct WrongWinnersFound {
  unsigned long long count;           // how many
  unsigned long long first_inverted;  // ~ the row-major number of the first window, so that the greatest is the first

#ifdef __CUDACC__
  // In whatever order threads come here, the same count and the same first window are left: these are integers.
  __device__ void add(std::int64_t window) {
    atomicAdd(&count, 1ull);
    atomicMax(&first_inverted, ~static_cast<unsigned long long>(window));
  }
#endif
};

// ---- Launches ------------------------------------------------------------------------------------------

// One thread for each window. A null y, or winners of kind none, are not written.
template <class Int>
struct PoolSearch {
  BasicPoolGeometry<Int> geometry{};
  PoolOrder<Int> order{};  // of y
  PoolStrides<Int> x{}, y{};
  IndexTensor<Int> winners{};
};
template <class Int>
cudaError_t pool_search(DType dtype, const void* x, void* y, void* winners, const PoolSearch<Int>& search,
                        cudaStream_t stream);

// One thread for each element of dx, which looks at the windows that reach it. `found` may be null: then the winners
// are known to be right.
template <class Int>
struct PoolGather {
  BasicPoolGeometry<Int> geometry{};
  ReachingWindows<Int> reaching[3]{};
  PoolOrder<Int> order{};    // of dx
  PoolOrder<Int> windows{};  // of dy; none where dx is empty
  PoolStrides<Int> dy{}, dx{};
  IndexTensor<Int> winners{};
};
template <class Int>
cudaError_t pool_gather(DType dtype, const void* winners, const void* dy, void* dx, WrongWinnersFound* found,
                        const PoolGather<Int>& gather, cudaStream_t stream);

// One thread for each window.
struct PoolConvert {
  PoolGeometry geometry{};
  PoolOrder<std::int64_t> order{};
  IndexTensor<std::int64_t> from{}, to{};
};
cudaError_t pool_convert(const void* from, void* to, WrongWinnersFound* found, const PoolConvert& convert,
                         cudaStream_t stream);

}  // namespace bp::cuda
