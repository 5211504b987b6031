// SPDX-License-Identifier: Apache-2.0
// The other oracle: every operator once more, from the contract alone, sharing no line with the library. It works on
// dense arrays of raw bits, in the most literal way there is, with its own conversions and its own index arithmetic, so
// that a mistake would have to be made twice to go unseen.
#pragma once

#include "problem.h"

#include <cstdint>
#include <vector>

namespace tools {

// The logical elements of a tensor in row-major order, each as its raw bits (zero-extended).
struct Dense {
  std::int32_t dtype = 0;
  Ints sizes;
  std::vector<std::uint64_t> bits;
};

struct Expected {
  std::vector<Dense> outputs;  // in slot order; an absent output is an empty Dense
  // Outputs whose NaNs come out of arithmetic: any NaN stands for any other. Everything else is exact.
  bool any_nan = false;
  // Some stored winner is wrong, so that run must report invalid_argument.
  bool wrong_winners = false;
};

// Inputs in slot order (absent ones empty). The problem is complete and valid.
Expected brute_force(const Problem& problem, const std::vector<Dense>& inputs);

}  // namespace tools
