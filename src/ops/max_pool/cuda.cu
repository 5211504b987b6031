// SPDX-License-Identifier: Apache-2.0
// Max pooling on CUDA.
#include "backends/cuda/launch.cuh"
#include "ops/max_pool/cuda.h"
#include "ops/max_pool/search.h"

#include <algorithm>

namespace bp::cuda {

namespace {

// ---- The winners of x ----------------------------------------------------------------------------------

template <class T, class Int>
__global__ void __launch_bounds__(kThreads)
    search_windows(const __grid_constant__ PoolSearch<Int> s, const T* __restrict__ x, T* __restrict__ y,
                   void* __restrict__ winners) {
  each_item(s.order.count, [&](std::int64_t item) {
    const auto w = s.order.at(item);
    const T* plane = x + s.x.plane(w);
    const auto winner = find_winner(s.geometry, plane, s.x.spatial, w.o);
    const bool found = winner.state == WinnerState::tap;
    if (y != nullptr) {
      y[s.y.at(w)] = found ? plane[s.x.inside(s.geometry.position(w.o, winner.tap))] : lowest<T>();
    }
    if (s.winners.kind != WinnersKind::none) {
      const std::int64_t index = found ? encode<std::int64_t>(s.geometry, s.winners.kind, w, winner.tap) : -1;
      s.winners.store(winners, s.winners.strides.at(w), index);
    }
  });
}

// ---- Stored winners ------------------------------------------------------------------------------------

template <class Int>
__device__ void report_wrong(const BasicPoolGeometry<Int>& g, const BasicWindowIndex<Int>& w,
                             WrongWinnersFound* found) {
  const std::int64_t plane = w.n * g.channels + w.c;
  found->add(((plane * g.axes[0].output + w.o[0]) * g.axes[1].output + w.o[1]) * g.axes[2].output + w.o[2]);
}

template <class Int>
__device__ BasicStoredWinner<Int> read_winner(const BasicPoolGeometry<Int>& g, const IndexTensor<Int>& tensor,
                                              const void* winners, const BasicWindowIndex<Int>& w,
                                              WrongWinnersFound* found) {
  const auto winner = decode(g, tensor.kind, w, tensor.load(winners, tensor.strides.at(w)));
  if (winner.state == WinnerState::wrong) report_wrong(g, w, found);
  return winner;
}

// The windows that reach p, in ascending order. A stored number that names p as a tap of its window is right by that.
template <class T, class Int>
__device__ Acc<T> gather_element(const PoolGather<Int>& s, const BasicWindowIndex<Int>& p,
                                 const void* __restrict__ winners, const T* __restrict__ dy) {
  const bool compact = s.winners.kind == WinnersKind::compact;
  const std::int64_t flat = compact ? 0 : s.geometry.flat_index(p.n, p.c, p.o);
  const std::int64_t winners_plane = s.winners.strides.plane(p);
  const T* dy_plane = dy + s.dy.plane(p);
  const Int end0 = s.reaching[0].end(p.o[0]), end1 = s.reaching[1].end(p.o[1]), end2 = s.reaching[2].end(p.o[2]);
  const Int first1 = s.reaching[1].first(p.o[1]), first2 = s.reaching[2].first(p.o[2]);
  Acc<T> sum = 0;
  BasicSpatial<Int> o{}, k{};
  for (o[0] = s.reaching[0].first(p.o[0]); o[0] < end0; ++o[0]) {
    if ((k[0] = s.reaching[0].tap(o[0], p.o[0])) < 0) continue;
    for (o[1] = first1; o[1] < end1; ++o[1]) {
      if ((k[1] = s.reaching[1].tap(o[1], p.o[1])) < 0) continue;
      for (o[2] = first2; o[2] < end2; ++o[2]) {
        if ((k[2] = s.reaching[2].tap(o[2], p.o[2])) < 0) continue;
        const std::int64_t wanted = compact ? s.geometry.tap_number(k) : flat;
        const std::int64_t stored = s.winners.load(winners, winners_plane + s.winners.strides.inside(o));
        if (stored == wanted) sum += widen(dy_plane[s.dy.inside(o)]);
      }
    }
  }
  return sum;
}

// No element sees the winner that names none: so each thread also looks at one window's.
template <class T, class Int>
__global__ void __launch_bounds__(kThreads)
    gather_windows(const __grid_constant__ PoolGather<Int> s, const void* __restrict__ winners,
                   const T* __restrict__ dy, T* __restrict__ dx, WrongWinnersFound* found) {
  each_item(s.order.count > s.windows.count ? s.order.count : s.windows.count, [&](std::int64_t item) {
    if (found != nullptr && item < s.windows.count) {
      read_winner(s.geometry, s.winners, winners, s.windows.at(item), found);
    }
    if (item < s.order.count) {
      const auto p = s.order.at(item);
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
    const bool is_tap = winner.state == WinnerState::tap;
    const std::int64_t index = is_tap ? encode<std::int64_t>(s.geometry, s.to.kind, w, winner.tap) : -1;
    s.to.store(to, s.to.strides.at(w), index);
  });
}

// The few bytes of the report; dx itself is written once.
cudaError_t clear(WrongWinnersFound* found, cudaStream_t stream) {
  return found == nullptr ? cudaSuccess : cudaMemsetAsync(found, 0, sizeof *found, stream);
}

}  // namespace

template <class Int>
cudaError_t pool_search(DType dtype, const void* x, void* y, void* winners, const PoolSearch<Int>& search,
                        cudaStream_t stream) {
  cudaError_t status = cudaSuccess;
  visit(AllTypes{}, dtype, [&]<class T>() {
    status = launch(stream, search.order.count, search_windows<T, Int>, search, static_cast<const T*>(x),
                    static_cast<T*>(y), winners);
  });
  return status;
}
template cudaError_t pool_search(DType, const void*, void*, void*, const PoolSearch<std::int32_t>&, cudaStream_t);
template cudaError_t pool_search(DType, const void*, void*, void*, const PoolSearch<std::int64_t>&, cudaStream_t);

template <class Int>
cudaError_t pool_gather(DType dtype, const void* winners, const void* dy, void* dx, WrongWinnersFound* found,
                        const PoolGather<Int>& gather, cudaStream_t stream) {
  cudaError_t status = clear(found, stream);
  if (status != cudaSuccess) return status;
  visit(Floats{}, dtype, [&]<class T>() {
    const std::int64_t items = std::max(gather.order.count, found == nullptr ? 0 : gather.windows.count);
    status = launch(stream, items, gather_windows<T, Int>, gather, winners, static_cast<const T*>(dy),
                    static_cast<T*>(dx), found);
  });
  return status;
}
template cudaError_t pool_gather(DType, const void*, const void*, void*, WrongWinnersFound*,
                                 const PoolGather<std::int32_t>&, cudaStream_t);
template cudaError_t pool_gather(DType, const void*, const void*, void*, WrongWinnersFound*,
                                 const PoolGather<std::int64_t>&, cudaStream_t);

cudaError_t pool_convert(const void* from, void* to, WrongWinnersFound* found, const PoolConvert& convert,
                         cudaStream_t stream) {
  const cudaError_t status = clear(found, stream);
  if (status != cudaSuccess) return status;
  return launch(stream, convert.order.count, convert_windows, convert, from, to, found);
}

}  // namespace bp::cuda
