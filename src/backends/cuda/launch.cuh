// SPDX-License-Identifier: Apache-2.0
// Launching kernels, and those that have one thread for each of many items.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace bp::cuda {

inline constexpr int kThreads = 256;  // of a block
inline constexpr std::uint64_t kMostBlocks = 0x7fffffff;

template <class... Parameters, class... Arguments>
cudaError_t launch_blocks(cudaStream_t stream, std::uint64_t blocks, std::uint32_t threads, std::uint32_t shared_bytes,
                          void (*kernel)(Parameters...), Arguments&&... arguments) {
  if (blocks > kMostBlocks) return cudaErrorInvalidConfiguration;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...);
}

// One thread for each of `items`, until the grid is as large as it may be; each_item() takes the rest.
template <class... Parameters, class... Arguments>
cudaError_t launch(cudaStream_t stream, std::int64_t items, void (*kernel)(Parameters...), Arguments&&... arguments) {
  if (items <= 0) return cudaSuccess;
  const auto blocks = static_cast<std::uint64_t>((items - 1) / kThreads + 1);
  return launch_blocks(stream, std::min(blocks, kMostBlocks), kThreads, 0, kernel,
                       std::forward<Arguments>(arguments)...);
}

// Calls f(i) for the items of this thread.
template <class F>
__device__ void each_item(std::int64_t items, F&& f) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < items; i += step) f(i);
}

}  // namespace bp::cuda
