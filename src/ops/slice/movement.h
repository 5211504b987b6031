// SPDX-License-Identifier: Apache-2.0
// Slice and its gradient are one movement: every element of the output is an element of the input or zero. Here it is
// in its shortest form: axes in the order of the output's memory, all walked upwards, as few as there can be.
#pragma once

#include "ops/slice/slice.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace bp {

// An axis of the output. Position first + step * k, for k < count, takes what lies at k * in_stride in the input; the
// other positions are zero.
struct MoveAxis {
  std::int64_t size = 1, out_stride = 1;
  std::int64_t first = 0, step = 1, count = 1, in_stride = 1;
  std::int64_t inner = 1;  // elements of the output in one position

  [[nodiscard]] bool is_full() const { return count == size && step == 1; }
  // The first k whose position is not below p.
  [[nodiscard]] std::int64_t first_from(std::int64_t p) const {
    return p <= first ? 0 : std::min(count, (p - first + step - 1) / step);
  }
  // Positions [begin, end) as an axis of their own.
  [[nodiscard]] MoveAxis part(std::int64_t begin, std::int64_t end) const {
    const std::int64_t k = first_from(begin);
    return {.size = end - begin,
            .out_stride = out_stride,
            .first = first + step * k - begin,
            .step = step,
            .count = first_from(end) - k,
            .in_stride = in_stride};
  }
};

struct Movement {
  std::array<MoveAxis, kMaxRank> axes{};  // outermost first
  int rank = 0;                           // at least 1 once made
  int packed = 0;                         // the axes from this one on follow each other in the output without gaps
  // Of the first elements, once all axes are walked upwards.
  std::int64_t out_offset = 0, in_offset = 0;

  [[nodiscard]] const MoveAxis& run() const { return axes[rank - 1]; }
};

namespace movement {

// The next axis inwards; it becomes part of the one above it where both are walked as one.
inline void append(Movement& m, const MoveAxis& axis) {
  MoveAxis* above = m.rank > 0 ? &m.axes[m.rank - 1] : nullptr;
  if (above != nullptr && axis.is_full() && above->step == 1 && above->out_stride == axis.out_stride * axis.size &&
      (above->count == 1 || above->in_stride == axis.in_stride * axis.size)) {
    *above = {.size = above->size * axis.size,
              .out_stride = axis.out_stride,
              .first = above->first * axis.size,
              .count = above->count * axis.size,
              .in_stride = axis.in_stride};
    return;
  }
  m.axes[m.rank++] = axis;
}

// An axis whose stride in the output, or step, may be negative, walked upwards.
inline MoveAxis turned(Movement& m, MoveAxis axis) {
  if (axis.out_stride < 0) {
    m.out_offset += axis.out_stride * (axis.size - 1);
    axis.out_stride = -axis.out_stride;
    axis.first = axis.size - 1 - axis.first;
    axis.step = -axis.step;
  }
  if (axis.step < 0) {
    axis.first += axis.step * (axis.count - 1);
    axis.step = -axis.step;
    m.in_offset += axis.in_stride * (axis.count - 1);
    axis.in_stride = -axis.in_stride;
  }
  return axis;
}

// What follows from the axes, once all are there.
inline void finish(Movement& m) {
  if (m.rank == 0) append(m, {});
  for (int i = m.rank - 2; i >= 0; --i) m.axes[i].inner = m.axes[i + 1].size * m.axes[i + 1].inner;
  m.packed = m.rank;
  while (m.packed > 0 && m.axes[m.packed - 1].out_stride == m.axes[m.packed - 1].inner) --m.packed;
}

// axis_of(i) is axis i as the plan has it.
template <class AxisOf>
Movement make(int rank, std::int64_t in_offset, const AxisOf& axis_of) {
  Movement m;
  m.in_offset = in_offset;
  std::array<MoveAxis, kMaxRank> axes{};
  int walked = 0;
  for (int i = 0; i < rank; ++i) {
    const MoveAxis axis = turned(m, axis_of(i));
    if (axis.size != 1) axes[walked++] = axis;
  }
  std::stable_sort(axes.begin(), axes.begin() + walked,
                   [](const MoveAxis& a, const MoveAxis& b) { return a.out_stride > b.out_stride; });
  for (int i = 0; i < walked; ++i) append(m, axes[i]);
  finish(m);
  return m;
}

}  // namespace movement

// Of plans that are not empty. Where one element is moved, strides, which may be anything, are not walked.

inline Movement slice_movement(const SlicePlan& plan) {
  std::int64_t start = 0;
  for (int i = 0; i < plan.whole.rank; ++i) start += plan.axes[i].start() * plan.whole.strides[i];
  return movement::make(plan.whole.rank, start, [&](int i) {
    const std::int64_t count = plan.part.sizes[i];
    return MoveAxis{.size = count,
                    .out_stride = plan.part.strides[i],
                    .count = count,
                    .in_stride = count == 1 ? 0 : plan.whole.strides[i] * plan.axes[i].stride};
  });
}

inline Movement slice_grad_movement(const SlicePlan& plan) {
  return movement::make(plan.whole.rank, 0, [&](int i) {
    const std::int64_t count = plan.part.sizes[i];
    return MoveAxis{.size = plan.whole.sizes[i],
                    .out_stride = plan.whole.strides[i],
                    .first = plan.axes[i].start(),
                    .step = count == 1 ? 1 : plan.axes[i].stride,
                    .count = count,
                    .in_stride = plan.part.strides[i]};
  });
}

}  // namespace bp
