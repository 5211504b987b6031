// SPDX-License-Identifier: Apache-2.0
// The scalar reference of resample. Each output is one nested sum: the axis that the contract takes first is innermost.
#include "backends/cpu/loops.h"
#include "ops/resample/resample.h"

#include <algorithm>

namespace bp::reference {

namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// ---- Forward: the last axis is innermost ---------------------------------------------------------------

template <class T>
Acc<T> interpolate(const ResamplePlan& plan, const T* x, int axis, const Dims& o, Dims& p) {
  if (axis == plan.x.rank) return static_cast<Acc<T>>(widen(x[cpu::offset(plan.x, p)]));
  const AxisTable& table = plan.axes[axis];
  if (table.movement) {
    p[axis] = table.left_alone ? o[axis] : table.index[at(o[axis])];
    return interpolate(plan, x, axis + 1, o, p);
  }
  Acc<T> sum = 0;
  for (std::int64_t k = table.begin[at(o[axis])]; k < table.begin[at(o[axis]) + 1]; ++k) {
    p[axis] = table.index[at(k)];
    const Acc<T> product = static_cast<Acc<T>>(table.weight[at(k)]) * interpolate(plan, x, axis + 1, o, p);
    sum += product;
  }
  return sum;
}

// Every axis is movement: whatever the bits mean, they pass.
void move(const ResamplePlan& plan, const Bindings& bindings) {
  visit_size(size_of(plan.x.dtype), [&]<class T>() {
    const T* x = bindings.input<T>(0);
    T* y = bindings.output<T>(0);
    cpu::for_each_index(plan.y.shape(), [&](const Dims& o) {
      Dims p{};
      for (int i = 0; i < plan.x.rank; ++i) p[i] = plan.axes[i].left_alone ? o[i] : plan.axes[i].index[at(o[i])];
      y[cpu::offset(plan.y, o)] = x[cpu::offset(plan.x, p)];
    });
  });
}

// ---- Gradient: the first axis is innermost -------------------------------------------------------------

template <class T>
Acc<T> gather(const ResampleGradPlan& plan, const T* dy, int axis, const Dims& i, Dims& o) {
  if (axis < 0) return widen(dy[cpu::offset(plan.dy, o)]);
  const AxisTable& table = plan.axes[axis];
  if (table.left_alone) {
    o[axis] = i[axis];
    return Acc<T>{0} + gather(plan, dy, axis - 1, i, o);
  }
  const std::int64_t end = table.begin[at(i[axis]) + 1];
  Acc<T> total = 0;
  for (std::int64_t first = table.begin[at(i[axis])]; first < end; first += kSumBlock) {
    Acc<T> sum = 0;
    for (std::int64_t k = first; k < std::min(first + kSumBlock, end); ++k) {
      o[axis] = table.index[at(k)];
      const Acc<T> product = static_cast<Acc<T>>(table.weight[at(k)]) * gather(plan, dy, axis - 1, i, o);
      sum += product;
    }
    total += sum;
  }
  return total;
}

}  // namespace

void resample(const ResamplePlan& plan, const Bindings& bindings) {
  if (plan.y.empty()) return;
  const auto moves = [](const AxisTable& axis) { return axis.movement; };
  if (std::all_of(plan.axes.begin(), plan.axes.begin() + plan.x.rank, moves)) return move(plan, bindings);
  visit(Resample::Types{}, plan.x.dtype, [&]<class T>() {
    const T* x = bindings.input<T>(0);
    T* y = bindings.output<T>(0);
    cpu::for_each_index(plan.y.shape(), [&](const Dims& o) {
      Dims p{};
      y[cpu::offset(plan.y, o)] = narrow<T>(interpolate(plan, x, 0, o, p));
    });
  });
}

void resample_grad(const ResampleGradPlan& plan, const Bindings& bindings) {
  visit(ResampleGrad::Types{}, plan.dx.dtype, [&]<class T>() {
    const T* dy = bindings.input<T>(0);
    T* dx = bindings.output<T>(0);
    const bool nothing_comes_in = plan.dy.empty();
    cpu::for_each_index(plan.dx.shape(), [&](const Dims& i) {
      Dims o{};
      dx[cpu::offset(plan.dx, i)] = nothing_comes_in ? T{} : narrow<T>(gather(plan, dy, plan.dx.rank - 1, i, o));
    });
  });
}

}  // namespace bp::reference
