// SPDX-License-Identifier: Apache-2.0
// Launching kernels that have one thread for each of many items.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace bp::cuda {

inline constexpr int kThreads = 256;  // of a block

// One thread for each of `items`, until the grid is as large as it may be; each_item() takes the rest.
template <class... Parameters, class... Arguments>
cudaError_t launch(cudaStream_t stream, std::int64_t items, void (*kernel)(Parameters...), Arguments&&... arguments) {
  if (items <= 0) return cudaSuccess;
  constexpr std::int64_t kMostBlocks = 0x7fffffff;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(std::min(kMostBlocks, (items - 1) / kThreads + 1)));
  config.blockDim = dim3(kThreads);
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...);
}

// Calls f(i) for the items of this thread.
template <class F>
__device__ void each_item(std::int64_t items, F&& f) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < items; i += step) f(i);
}

}  // namespace bp::cuda
