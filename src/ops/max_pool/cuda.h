// SPDX-License-Identifier: Apache-2.0
// The kernels of max pooling, as the host calls them. They only put work on the stream.
#pragma once

#include "backends/cuda/divisor.h"
#include "core/tensor.h"
#include "ops/max_pool/winners.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace bp::cuda {

// The elements of a {N, C, D, H, W} tensor by number. Neighbouring threads take neighbouring numbers, so these follow
// the tensor's memory, be its channels outside of the spatial axes or inside.
struct PoolOrder {
  std::int64_t count = 0;
  bool channels_last = false;
  Divisor<std::uint64_t> channels{}, spatial[3]{};

  [[nodiscard]] constexpr WindowIndex at(std::int64_t item) const {
    WindowIndex w;
    auto rest = static_cast<std::uint64_t>(item);
    if (channels_last) w.c = static_cast<std::int64_t>(channels.split(rest));
    for (int i = 2; i >= 0; --i) w.o[i] = static_cast<std::int64_t>(spatial[i].split(rest));
    if (!channels_last) w.c = static_cast<std::int64_t>(channels.split(rest));
    w.n = static_cast<std::int64_t>(rest);
    return w;
  }
};

struct PoolStrides {
  std::int64_t n = 0, c = 0;
  Spatial spatial{};

  [[nodiscard]] constexpr std::int64_t plane(const WindowIndex& w) const { return w.n * n + w.c * c; }
  [[nodiscard]] constexpr std::int64_t at(const WindowIndex& w) const {
    return plane(w) + w.o[0] * spatial[0] + w.o[1] * spatial[1] + w.o[2] * spatial[2];
  }
};

// Stored winners of any type, which is no part of a kernel's type: -1 for none, below that for no number at all.
struct IndexTensor {
  WinnersKind kind = WinnersKind::none;
  int size = 1;  // bytes of an index
  bool is_signed = false;
  PoolStrides strides{};

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
  unsigned long long count;
  unsigned long long first_inverted;  // ~ the row-major number of the first window, so that the greatest is the first
};

// ---- Launches ------------------------------------------------------------------------------------------

// One thread for each window. A null y, or winners of kind none, are not written.
struct PoolSearch {
  PoolGeometry geometry;
  PoolOrder order;  // of y
  PoolStrides x{}, y{};
  IndexTensor winners{};
};
cudaError_t pool_search(DType dtype, const void* x, void* y, void* winners, const PoolSearch& search,
                        cudaStream_t stream);

// One thread for each element of dx, which looks at the windows that reach it. `found` may be null: then the winners
// are known to be right.
struct PoolGather {
  PoolGeometry geometry;
  PoolOrder order;    // of dx
  PoolOrder windows;  // of dy; none where dx is empty
  PoolStrides dy{}, dx{};
  IndexTensor winners{};
};
cudaError_t pool_gather(DType dtype, const void* winners, const void* dy, void* dx, WrongWinnersFound* found,
                        const PoolGather& gather, cudaStream_t stream);

// One thread for each window.
struct PoolConvert {
  PoolGeometry geometry;
  PoolOrder order;
  IndexTensor from, to;
};
cudaError_t pool_convert(const void* from, void* to, WrongWinnersFound* found, const PoolConvert& convert,
                         cudaStream_t stream);

}  // namespace bp::cuda
