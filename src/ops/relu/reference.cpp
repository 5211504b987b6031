// SPDX-License-Identifier: Apache-2.0
// The scalar reference of ReLU.
#include "backends/cpu/loops.h"
#include "ops/relu/relu.h"

namespace bp::reference {

void relu(const ReluPlan& plan, const Bindings& bindings) {
  visit(Relu::Types{}, plan.x.dtype, [&]<class T>() {
    const T* x = bindings.input<T>(0);
    T* y = bindings.output<T>(0);
    cpu::for_each_index(plan.x.shape(), [&](const Dims& i) {
      const T v = x[cpu::offset(plan.x, i)];
      y[cpu::offset(plan.y, i)] = widen(v) > 0 || is_nan(v) ? v : T{};
    });
  });
}

void relu_grad(const ReluGradPlan& plan, const Bindings& bindings) {
  visit(ReluGrad::Types{}, plan.x.dtype, [&]<class T>() {
    const T* x = bindings.input<T>(0);
    const T* dy = bindings.input<T>(1);
    T* dx = bindings.output<T>(0);
    cpu::for_each_index(plan.x.shape(), [&](const Dims& i) {
      const T v = x[cpu::offset(plan.x, i)];
      const bool passes = widen(v) > 0 || (plan.nan_passes && is_nan(v));
      dx[cpu::offset(plan.dx, i)] = passes ? dy[cpu::offset(plan.dy, i)] : T{};
    });
  });
}

}  // namespace bp::reference
