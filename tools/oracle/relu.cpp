// SPDX-License-Identifier: Apache-2.0
#include "oracle/numbers.h"
#include "oracle/operators.h"

#include <cmath>
#include <cstddef>

namespace tools::oracle {
namespace {

bool is_nan(uint64_t bits, int32_t dtype) { return is_float(dtype) && std::isnan(real_value(bits, dtype)); }

bool is_positive(uint64_t bits, int32_t dtype) {
  return is_float(dtype) ? real_value(bits, dtype) > 0 : integer_value(bits, dtype) > 0;
}

}  // namespace

Expected relu(const Dense& x) {
  Dense y = x;
  for (uint64_t& bits : y.bits) {
    if (!is_positive(bits, x.dtype) && !is_nan(bits, x.dtype)) bits = 0;
  }
  return {{y}, false, false};
}

Expected relu_grad(const Problem& problem, const Dense& x, const Dense& dy) {
  Dense dx = dy;
  for (std::size_t i = 0; i < dx.bits.size(); ++i) {
    const bool nan_passes = problem.nan == BP_NAN_PASS && is_nan(x.bits[i], x.dtype);
    if (!is_positive(x.bits[i], x.dtype) && !nan_passes) dx.bits[i] = 0;
  }
  return {{dx}, false, false};
}

}  // namespace tools::oracle
