// SPDX-License-Identifier: Apache-2.0
#include "oracle/numbers.h"
#include "oracle/operators.h"

#include <cstddef>

namespace tools::oracle {
namespace {

// The index into x of every element of y, both row-major.
Ints slice_sources(const Problem& problem) {
  Ints sources(at(element_count(problem.y_shape)));
  for (std::size_t i = 0; i < sources.size(); ++i) {
    int64_t rest = length(i), x_stride = 1;
    for (std::size_t axis = problem.y_shape.size(); axis-- > 0;) {
      const int64_t stride = problem.strides[axis], c = rest % problem.y_shape[axis];
      const int64_t start = problem.offsets[axis] + (stride > 0 ? 0 : problem.sizes[axis] - 1);
      sources[i] += x_stride * (start + stride * c);
      rest /= problem.y_shape[axis];
      x_stride *= problem.x_shape[axis];
    }
  }
  return sources;
}

}  // namespace

Expected slice(const Problem& problem, const Dense& x) {
  Dense y{x.dtype, problem.y_shape, {}};
  for (const int64_t source : slice_sources(problem)) y.bits.push_back(x.bits[at(source)]);
  return {{y}, false, false};
}

Expected slice_grad(const Problem& problem, const Dense& dy) {
  Dense dx = zeros(dy.dtype, problem.x_shape);
  const Ints sources = slice_sources(problem);
  for (std::size_t i = 0; i < sources.size(); ++i) dx.bits[at(sources[i])] = dy.bits[i];
  return {{dx}, false, false};
}

}  // namespace tools::oracle
