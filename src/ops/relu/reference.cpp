// SPDX-License-Identifier: Apache-2.0
// The scalar reference of ReLU.
#include "backends/cpu/loops.h"
#include "ops/relu/relu.h"
#include "ops/relu/rule.h"

namespace bp::reference {

void relu(const ReluPlan& plan, const Bindings& bindings) {
  visit(Relu::Types{}, plan.x.dtype, [&]<class T>() {
    const T* x = bindings.input<T>(0);
    T* y = bindings.output<T>(0);
    cpu::for_each_index(plan.x.shape(),
                        [&](const Dims& i) { y[cpu::offset(plan.y, i)] = relu_of(x[cpu::offset(plan.x, i)]); });
  });
}

void relu_grad(const ReluGradPlan& plan, const Bindings& bindings) {
  visit(ReluGrad::Types{}, plan.x.dtype, [&]<class T>() {
    const T* x = bindings.input<T>(0);
    const T* dy = bindings.input<T>(1);
    T* dx = bindings.output<T>(0);
    cpu::for_each_index(plan.x.shape(), [&](const Dims& i) {
      dx[cpu::offset(plan.dx, i)] =
          relu_grad_of(x[cpu::offset(plan.x, i)], dy[cpu::offset(plan.dy, i)], plan.nan_passes);
    });
  });
}

}  // namespace bp::reference
