// SPDX-License-Identifier: Apache-2.0
// Max pooling on CUDA.
#include "backends/cuda/launch.cuh"
#include "ops/max_pool/cuda.h"
#include "ops/max_pool/search.h"

#include <algorithm>

namespace bp::cuda {

namespace {

// ---- The winners of x ----------------------------------------------------------------------------------

template <class T>
__global__ void __launch_bounds__(kThreads)
    search_windows(const __grid_constant__ PoolSearch s, const T* __restrict__ x, T* __restrict__ y,
                   void* __restrict__ winners) {
  each_item(s.order.count, [&](std::int64_t item) {
    const WindowIndex w = s.order.at(item);
    const T* plane = x + s.x.plane(w);
    const StoredWinner winner = find_winner(s.geometry, plane, s.x.spatial, w.o);
    const bool found = winner.state == StoredWinner::State::tap;
    if (y != nullptr) {
      const Spatial p = s.geometry.position(w.o, winner.tap);
      y[s.y.at(w)] = found ? plane[s.x.at({0, 0, p})] : lowest<T>();
    }
    if (s.winners.kind != WinnersKind::none) {
      const std::int64_t index = found ? encode<std::int64_t>(s.geometry, s.winners.kind, w, winner.tap) : -1;
      s.winners.store(winners, s.winners.strides.at(w), index);
    }
  });
}

// ---- Stored winners ------------------------------------------------------------------------------------

// Integers: in whatever order threads come here, the same count and the same first window are left.
__device__ void report_wrong(const PoolGeometry& g, const WindowIndex& w, WrongWinnersFound* found) {
  const std::int64_t plane = w.n * g.channels + w.c;
  const std::int64_t number =
      ((plane * g.axes[0].output + w.o[0]) * g.axes[1].output + w.o[1]) * g.axes[2].output + w.o[2];
  atomicAdd(&found->count, 1ull);
  atomicMax(&found->first_inverted, ~static_cast<unsigned long long>(number));
}

__device__ StoredWinner read_winner(const PoolGeometry& g, const IndexTensor& tensor, const void* winners,
                                    const WindowIndex& w, WrongWinnersFound* found) {
  const StoredWinner winner = decode(g, tensor.kind, w, tensor.load(winners, tensor.strides.at(w)));
  if (winner.state == StoredWinner::State::wrong) report_wrong(g, w, found);
  return winner;
}

// The windows that reach p, in ascending order. A stored number that names p as a tap of its window is right by that.
template <class T>
__device__ Acc<T> gather_element(const PoolGather& s, const WindowIndex& p, const void* __restrict__ winners,
                                 const T* __restrict__ dy) {
  const auto& axes = s.geometry.axes;
  const std::int64_t flat = s.geometry.flat_index(p.n, p.c, p.o);
  const Spatial first{axes[0].first_window(p.o[0]), axes[1].first_window(p.o[1]), axes[2].first_window(p.o[2])};
  const Spatial end{axes[0].end_window(p.o[0]), axes[1].end_window(p.o[1]), axes[2].end_window(p.o[2])};
  Acc<T> sum = 0;
  WindowIndex w{p.n, p.c, {}};
  Spatial k{};
  for (w.o[0] = first[0]; w.o[0] < end[0]; ++w.o[0]) {
    if ((k[0] = axes[0].tap_at(w.o[0], p.o[0])) < 0) continue;
    for (w.o[1] = first[1]; w.o[1] < end[1]; ++w.o[1]) {
      if ((k[1] = axes[1].tap_at(w.o[1], p.o[1])) < 0) continue;
      for (w.o[2] = first[2]; w.o[2] < end[2]; ++w.o[2]) {
        if ((k[2] = axes[2].tap_at(w.o[2], p.o[2])) < 0) continue;
        const std::int64_t wanted = s.winners.kind == WinnersKind::compact ? s.geometry.tap_number(k) : flat;
        if (s.winners.load(winners, s.winners.strides.at(w)) == wanted) sum += widen(dy[s.dy.at(w)]);
      }
    }
  }
  return sum;
}

// No element sees the winner that names none: so each thread also looks at one window's.
template <class T>
__global__ void __launch_bounds__(kThreads)
    gather_windows(const __grid_constant__ PoolGather s, const void* __restrict__ winners, const T* __restrict__ dy,
                   T* __restrict__ dx, WrongWinnersFound* found) {
  each_item(s.order.count > s.windows.count ? s.order.count : s.windows.count, [&](std::int64_t item) {
    if (found != nullptr && item < s.windows.count) {
      read_winner(s.geometry, s.winners, winners, s.windows.at(item), found);
    }
    if (item < s.order.count) {
      const WindowIndex p = s.order.at(item);
      dx[s.dx.at(p)] = narrow<T>(gather_element(s, p, winners, dy));
    }
  });
}

__global__ void __launch_bounds__(kThreads)
    convert_windows(const __grid_constant__ PoolConvert s, const void* __restrict__ from, void* __restrict__ to,
                    WrongWinnersFound* found) {
  each_item(s.order.count, [&](std::int64_t item) {
    const WindowIndex w = s.order.at(item);
    const StoredWinner winner = read_winner(s.geometry, s.from, from, w, found);
    const bool is_tap = winner.state == StoredWinner::State::tap;
    const std::int64_t index = is_tap ? encode<std::int64_t>(s.geometry, s.to.kind, w, winner.tap) : -1;
    s.to.store(to, s.to.strides.at(w), index);
  });
}

// The few bytes of the report; dx itself is written once.
cudaError_t clear(WrongWinnersFound* found, cudaStream_t stream) {
  return found == nullptr ? cudaSuccess : cudaMemsetAsync(found, 0, sizeof *found, stream);
}

}  // namespace

cudaError_t pool_search(DType dtype, const void* x, void* y, void* winners, const PoolSearch& search,
                        cudaStream_t stream) {
  cudaError_t status = cudaSuccess;
  visit(AllTypes{}, dtype, [&]<class T>() {
    status = launch(stream, search.order.count, search_windows<T>, search, static_cast<const T*>(x), static_cast<T*>(y),
                    winners);
  });
  return status;
}

cudaError_t pool_gather(DType dtype, const void* winners, const void* dy, void* dx, WrongWinnersFound* found,
                        const PoolGather& gather, cudaStream_t stream) {
  cudaError_t status = clear(found, stream);
  if (status != cudaSuccess) return status;
  visit(Floats{}, dtype, [&]<class T>() {
    const std::int64_t items = std::max(gather.order.count, found == nullptr ? 0 : gather.windows.count);
    status = launch(stream, items, gather_windows<T>, gather, winners, static_cast<const T*>(dy), static_cast<T*>(dx),
                    found);
  });
  return status;
}

cudaError_t pool_convert(const void* from, void* to, WrongWinnersFound* found, const PoolConvert& convert,
                         cudaStream_t stream) {
  const cudaError_t status = clear(found, stream);
  if (status != cudaSuccess) return status;
  return launch(stream, convert.order.count, convert_windows, convert, from, to, found);
}

}  // namespace bp::cuda
