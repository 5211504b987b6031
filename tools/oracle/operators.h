// SPDX-License-Identifier: Apache-2.0
// Every operator, each family in a file of its own.
#pragma once

#include "oracle/brute_force.h"

#include <vector>

namespace tools::oracle {

Expected relu(const Dense& x);
Expected relu_grad(const Problem& problem, const Dense& x, const Dense& dy);

Expected max_pool(const Problem& problem, const Dense& x);
Expected max_pool_grad(const Problem& problem, const std::vector<Dense>& inputs);
Expected convert_winners(const Problem& problem, const Dense& from);

Expected resample(const Problem& problem, const Dense& x);
Expected resample_grad(const Problem& problem, const Dense& dy);

Expected slice(const Problem& problem, const Dense& x);
Expected slice_grad(const Problem& problem, const Dense& dy);

}  // namespace tools::oracle
