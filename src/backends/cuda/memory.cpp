// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/memory.h"

#include "backends/cuda/runtime.h"

namespace bp::cuda {

void Tables::upload(std::string_view op) {
  if (host_.empty()) return;
  void* memory = nullptr;
  require(op, "tables", cudaMalloc(&memory, host_.size()));
  device_ = static_cast<std::byte*>(memory);
  require(op, "tables", cudaMemcpy(device_, host_.data(), host_.size(), cudaMemcpyHostToDevice));
  // The copy may return when it has read the host's memory; a stream that waits for no other could overtake it.
  require(op, "tables", cudaStreamSynchronize(cudaStreamLegacy));
  host_ = {};
}

// cudaFree waits until the device is done with what was launched before, so no kernel loses its tables. It is no part
// of a graph that some stream may be capturing meanwhile: relaxed, it does not disturb that.
Tables::~Tables() {
  if (device_ == nullptr) return;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  (void)cudaThreadExchangeStreamCaptureMode(&mode);
  (void)cudaFree(device_);
  (void)cudaThreadExchangeStreamCaptureMode(&mode);
}

}  // namespace bp::cuda
