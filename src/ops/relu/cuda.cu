// SPDX-License-Identifier: Apache-2.0
// ReLU on CUDA.
#include "backends/cuda/launch.cuh"
#include "ops/relu/cuda.h"
#include "ops/relu/rule.h"

#include <array>
#include <bit>

namespace bp::cuda {

namespace {

// Of x, and of dy where there is one.
template <class T>
struct ReluOf {
  static constexpr bool kReadsDy = false;
  __device__ T operator()(T x, T /*dy*/) const { return relu_of(x); }
};

template <class T>
struct ReluGradOf {
  static constexpr bool kReadsDy = true;
  bool nan_passes;
  __device__ T operator()(T x, T dy) const { return relu_grad_of(x, dy, nan_passes); }
};

// ---- Any strides: one thread for each element ----------------------------------------------------------

template <class T, class F, std::size_t kViews>
__global__ void __launch_bounds__(kThreads)
    map_strided(const __grid_constant__ Strided<kViews> views, F f, T* out, const T* x, const T* dy) {
  each_item(views.count, [&](std::int64_t item) {
    const auto at = views.offsets(item);
    if constexpr (F::kReadsDy) {
      out[at[0]] = f(x[at[1]], dy[at[2]]);
    } else {
      out[at[0]] = f(x[at[1]], T{});
    }
  });
}

template <class T, class F, std::size_t kViews>
cudaError_t launch_strided(cudaStream_t stream, const Strided<kViews>& views, F f, void* out, const void* x,
                           const void* dy) {
  return launch(stream, views.count, map_strided<T, F, kViews>, views, f, static_cast<T*>(out),
                static_cast<const T*>(x), static_cast<const T*>(dy));
}

// ---- In one piece: one thread for a vector --------------------------------------------------------------

// An output may be an input: each element is read by the thread that writes it, before. Several vectors for each thread
// were no faster. Hints that nothing is used twice cost 5 % after another kernel: what that left in the cache then
// stays there, and these lines have to leave at once.
template <class T, class F>
__global__ void __launch_bounds__(kThreads) map_packed(std::int64_t count, F f, T* out, const T* x, const T* dy) {
  constexpr std::int64_t kElements = kVectorBytes / sizeof(T);
  using Elements = std::array<T, kElements>;
  const std::int64_t vectors = count / kElements;
  each_item((count + kElements - 1) / kElements, [&](std::int64_t i) {
    if (i < vectors) {
      auto result = std::bit_cast<Elements>(reinterpret_cast<const uint4*>(x)[i]);
      Elements dy_of{};
      if constexpr (F::kReadsDy) dy_of = std::bit_cast<Elements>(reinterpret_cast<const uint4*>(dy)[i]);
#pragma unroll
      for (int k = 0; k < kElements; ++k) result[k] = f(result[k], dy_of[k]);
      reinterpret_cast<uint4*>(out)[i] = std::bit_cast<uint4>(result);
    } else {  // less than a vector is left over
      for (std::int64_t k = i * kElements; k < count; ++k) out[k] = f(x[k], F::kReadsDy ? dy[k] : T{});
    }
  });
}

template <class T, class F>
cudaError_t launch_packed(cudaStream_t stream, std::int64_t count, F f, void* out, const void* x, const void* dy) {
  constexpr std::int64_t kElements = kVectorBytes / sizeof(T);
  return launch(stream, (count + kElements - 1) / kElements, map_packed<T, F>, count, f, static_cast<T*>(out),
                static_cast<const T*>(x), static_cast<const T*>(dy));
}

template <class F>
cudaError_t visit_type(DType dtype, F&& f) {
  cudaError_t status = cudaErrorInvalidValue;
  visit(SignedNumbers{}, dtype, [&]<class T>() { status = f.template operator()<T>(); });
  return status;
}

}  // namespace

cudaError_t relu_packed(DType dtype, const void* x, void* y, std::int64_t count, cudaStream_t stream) {
  return visit_type(dtype, [&]<class T>() { return launch_packed<T>(stream, count, ReluOf<T>{}, y, x, nullptr); });
}

cudaError_t relu_grad_packed(DType dtype, const void* x, const void* dy, void* dx, std::int64_t count, bool nan_passes,
                             cudaStream_t stream) {
  return visit_type(dtype,
                    [&]<class T>() { return launch_packed<T>(stream, count, ReluGradOf<T>{nan_passes}, dx, x, dy); });
}

cudaError_t relu_strided(DType dtype, const void* x, void* y, const Strided<2>& views, cudaStream_t stream) {
  return visit_type(dtype, [&]<class T>() { return launch_strided<T>(stream, views, ReluOf<T>{}, y, x, nullptr); });
}

cudaError_t relu_grad_strided(DType dtype, const void* x, const void* dy, void* dx, const Strided<3>& views,
                              bool nan_passes, cudaStream_t stream) {
  return visit_type(dtype,
                    [&]<class T>() { return launch_strided<T>(stream, views, ReluGradOf<T>{nan_passes}, dx, x, dy); });
}

}  // namespace bp::cuda
