// SPDX-License-Identifier: Apache-2.0
// The scalar reference of slice.
#include "backends/cpu/loops.h"
#include "ops/slice/slice.h"

namespace bp::reference {

namespace {

// The index in the whole of an index in the part.
Dims position(const SlicePlan& plan, const Dims& c) {
  Dims p{};
  for (int i = 0; i < plan.whole.rank; ++i) p[i] = plan.axes[i].position(c[i]);
  return p;
}

}  // namespace

void slice(const SlicePlan& plan, const Bindings& bindings) {
  visit_size(size_of(plan.whole.dtype), [&]<class T>() {
    const T* x = bindings.input<T>(0);
    T* y = bindings.output<T>(0);
    cpu::for_each_index(plan.part.shape(), [&](const Dims& c) {
      y[cpu::offset(plan.part, c)] = x[cpu::offset(plan.whole, position(plan, c))];
    });
  });
}

void slice_grad(const SliceGradPlan& plan, const Bindings& bindings) {
  visit_size(size_of(plan.whole.dtype), [&]<class T>() {
    const T* dy = bindings.input<T>(0);
    T* dx = bindings.output<T>(0);
    cpu::for_each_index(plan.whole.shape(), [&](const Dims& p) { dx[cpu::offset(plan.whole, p)] = T{0}; });
    cpu::for_each_index(plan.part.shape(), [&](const Dims& c) {
      dx[cpu::offset(plan.whole, position(plan, c))] = dy[cpu::offset(plan.part, c)];
    });
  });
}

}  // namespace bp::reference
