// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace bp {

// The instruction sets that the kernels are compiled for, the processor has and BACKPASS_MAX_ISA allows, best first:
// "AVX3,AVX2,SSE4". Throws for a BACKPASS_MAX_ISA that names none.
const std::string& instruction_sets();

// The same as Highway's bits.
std::int64_t instruction_set_bits();

}  // namespace bp
