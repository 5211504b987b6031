// SPDX-License-Identifier: Apache-2.0
// One problem, one type, one implementation: the result against the brute-force oracle, bit for bit, in guarded memory.
#pragma once

#include "problem.h"

#include <string>
#include <vector>

namespace tools {

// Runs an operator created for this problem; empty when all is well, else what is wrong.
std::string check_problem(const Problem& problem, std::int32_t dtype, const bp_operator* op);

// The types a problem is checked in, and the implementations there are.
std::vector<std::int32_t> dtypes_of(const Problem& problem, std::int32_t device_kind);
std::vector<std::string> implementations_of(std::int32_t kind, std::int32_t device_kind);

// A random problem as its line; the same number gives the same line. `kind` 0: any.
std::string random_problem(std::uint64_t number, std::int32_t kind);

}  // namespace tools
