// SPDX-License-Identifier: Apache-2.0
// What the host does around kernels: errors as sentences, the device of an operator, ranges for profilers.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace bp::cuda {

// Refuses with one sentence unless all is well.
void require(std::string_view op, std::string_view what, cudaError_t status);

// Selects a device for this scope; the caller's is put back.
class SelectedDevice {
 public:
  SelectedDevice(std::string_view op, std::int32_t ordinal);
  ~SelectedDevice();
  SelectedDevice(const SelectedDevice&) = delete;
  SelectedDevice& operator=(const SelectedDevice&) = delete;

 private:
  int found_ = 0;
  int selected_ = 0;
};

// Whether memory begins where an access of so many bytes may.
inline bool is_aligned(const void* data, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
}

// Tables are copied to the device at create, which a graph that is being captured could neither contain nor wait for.
void require_no_capture(std::string_view op);

// A named range on the time line of a profiler, for this scope.
class Range {
 public:
  explicit Range(std::string_view name);
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

}  // namespace bp::cuda
