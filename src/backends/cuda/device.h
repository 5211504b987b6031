// SPDX-License-Identifier: Apache-2.0
// The CUDA devices of this machine, as the rest of the library asks for them. Without CUDA in this build,
// ops/no_cuda.cpp answers.
#pragma once

#include <cstdint>

namespace bp::cuda {

// The devices that can be used now; 0 where there is no driver.
std::int32_t device_count();

// Refuses an ordinal under which there is no device that these kernels run on, and says why.
void require_device(std::int32_t ordinal);

}  // namespace bp::cuda
