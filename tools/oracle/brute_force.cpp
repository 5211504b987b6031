// SPDX-License-Identifier: Apache-2.0
#include "oracle/brute_force.h"

#include "oracle/operators.h"

#include <stdexcept>
#include <string>

namespace tools {

Expected brute_force(const Problem& problem, const std::vector<Dense>& inputs) {
  const Dense& in = inputs[0];
  if (problem.kind == BP_RELU) return oracle::relu(in);
  if (problem.kind == BP_RELU_GRAD) return oracle::relu_grad(problem, in, inputs[1]);
  if (problem.kind == BP_MAX_POOL) return oracle::max_pool(problem, in);
  if (problem.kind == BP_MAX_POOL_GRAD) return oracle::max_pool_grad(problem, inputs);
  if (problem.kind == BP_CONVERT_WINNERS) return oracle::convert_winners(problem, in);
  if (problem.kind == BP_RESAMPLE) return oracle::resample(problem, in);
  if (problem.kind == BP_RESAMPLE_GRAD) return oracle::resample_grad(problem, in);
  if (problem.kind == BP_SLICE) return oracle::slice(problem, in);
  if (problem.kind == BP_SLICE_GRAD) return oracle::slice_grad(problem, in);
  throw std::logic_error("brute_force: unknown operator kind " + std::to_string(problem.kind));
}

}  // namespace tools
