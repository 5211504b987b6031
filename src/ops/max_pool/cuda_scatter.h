// SPDX-License-Identifier: Apache-2.0
// The gradient of max pooling by wide windows where channels are innermost, or, if windows are very wide, over planes,
// as the host calls it. Types are f32, f16 and bf16, winners compact, in bytes; any windows along rows and columns, no
// depth axis.
#pragma once

#include "core/dtype.h"
#include "ops/max_pool/cuda.h"
#include "ops/max_pool/cuda_tiles.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace bp::cuda {

struct ScatterAxis {
  int input, output, window, stride, dilation, padding;
  int extent;
};

struct ScatterCut {
  // The problem.
  std::uint32_t batch, channels;
  ScatterAxis rows, columns;

  // Its cut, by `cut_scatter`: a warp takes 32 channels of a tile of columns of a strip of rows. A strip is counted in
  // steps, each of which ends the rows that no later window reaches.
  std::uint32_t channel_blocks = 0, tiles = 0, strips = 0;
  int tile = 0, strip = 0;
};

struct ScatterPool {
  DType dtype = DType::f32;
  ScatterCut cut{};
  std::uint64_t blocks = 0;
  std::uint32_t shared_bytes = 0;
};

// Fills in the cut; false where even the least tile needs too much shared memory.
bool cut_scatter(ScatterPool& pool);
// Lets the kernel have its shared memory on the device at hand: once, at create.
cudaError_t prepare_scatter(const ScatterPool& pool);
// Only puts work on the stream. *found is cleared first.
cudaError_t scatter_channels(const ScatterPool& pool, const ConstPoolView& winners, const ConstPoolView& dy,
                             const MutablePoolView& dx, WrongWinnersFound* found, cudaStream_t stream);

}  // namespace bp::cuda
