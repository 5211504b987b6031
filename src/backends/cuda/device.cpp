// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/device.h"

#include "backends/cuda/runtime.h"
#include "core/status.h"

#include <nvtx3/nvToolsExt.h>

#include <string>

namespace bp::cuda {

namespace {

constexpr int kLeastMajor = 8;  // what the kernels are compiled for, at least

std::string why_none(cudaError_t status) {
  if (status == cudaErrorInsufficientDriver) {
    return fmt::format("this machine has no CUDA driver, or one older than CUDA {}.{} needs", CUDART_VERSION / 1000,
                       CUDART_VERSION % 1000 / 10);
  }
  return cudaGetErrorString(status);
}

int attribute(cudaDeviceAttr which, std::int32_t ordinal) {
  int value = 0;
  require("device", "its attributes", cudaDeviceGetAttribute(&value, which, ordinal));
  return value;
}

}  // namespace

// ---- Devices -------------------------------------------------------------------------------------------

std::int32_t device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  (void)cudaGetLastError();  // not the caller's affair
  return 0;
}

void require_device(std::int32_t ordinal) {
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess) {
    (void)cudaGetLastError();
    unsupported("device: no CUDA device can be used: {}", why_none(status));
  }
  if (ordinal < 0) invalid("device: ordinal is {}, expected 0 or more", ordinal);
  if (ordinal >= count) {
    unsupported("device: ordinal is {}, expected below {} (the count of CUDA devices)", ordinal, count);
  }
  const int major = attribute(cudaDevAttrComputeCapabilityMajor, ordinal);
  if (major < kLeastMajor) {
    unsupported("device: CUDA device {} has compute capability {}.{}, expected {}.0 or newer", ordinal, major,
                attribute(cudaDevAttrComputeCapabilityMinor, ordinal), kLeastMajor);
  }
}

// ---- Around kernels ------------------------------------------------------------------------------------

void require(std::string_view op, std::string_view what, cudaError_t status) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // so that the caller's next look does not find it again
  const char* error = cudaGetErrorString(status);
  switch (status) {
    case cudaErrorMemoryAllocation:
      throw Failure(BP_OUT_OF_MEMORY, fmt::format("{}: {}: not enough memory on the CUDA device", op, what));
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureImplicit:
      unsupported("{}: {}: a stream is being captured into a graph, expected create before the capture", op, what);
    default:
      throw Failure(BP_BACKEND_ERROR, fmt::format("{}: {}: failed on the CUDA device: {}", op, what, error));
  }
}

SelectedDevice::SelectedDevice(std::string_view op, std::int32_t ordinal) : selected_(ordinal) {
  require(op, "device", cudaGetDevice(&found_));
  if (found_ != selected_) require(op, "device", cudaSetDevice(selected_));
}

SelectedDevice::~SelectedDevice() {
  if (found_ != selected_) (void)cudaSetDevice(found_);
}

void require_no_capture(std::string_view op) {
  cudaStreamCaptureStatus unused{};
  // The legacy stream cannot be captured itself, but tells of a capture that it would wait for, and does not disturb
  // it.
  require(op, "create", cudaStreamIsCapturing(cudaStreamLegacy, &unused));
  // Of a capture on a stream that it would not wait for only a call tells that is forbidden then, such as this one,
  // which frees nothing. (It ends that capture, as the copy of the tables would.)
  require(op, "create", cudaFree(nullptr));
}

Range::Range(std::string_view name) {
  nvtxEventAttributes_t range{};
  range.version = NVTX_VERSION;
  range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  range.messageType = NVTX_MESSAGE_TYPE_ASCII;
  range.message.ascii = name.data();  // names are string literals, so 0-terminated
  nvtxRangePushEx(&range);
}

Range::~Range() { nvtxRangePop(); }

}  // namespace bp::cuda
