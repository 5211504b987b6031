// SPDX-License-Identifier: Apache-2.0
// Slice and its gradient on CUDA: the implementation lists and what each prepares.
#include "ops/slice/cuda.h"

#include "backends/cuda/kernel.h"
#include "ops/slice/movement.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace bp::cuda {

namespace {

constexpr std::int64_t kMost32 = std::numeric_limits<std::int32_t>::max();

Movement movement_of(const SlicePlan& plan) { return slice_movement(plan); }
Movement movement_of(const SliceGradPlan& plan) { return slice_grad_movement(plan); }

// Nothing is empty in part: a window is empty only where its axis is.
bool is_empty(const SlicePlan& plan) { return plan.whole.empty() || plan.part.empty(); }
const Tensor& output_of(const SlicePlan& plan) { return plan.part; }
const Tensor& output_of(const SliceGradPlan& plan) { return plan.whole; }

template <class Unsigned>
MovedAxis<Unsigned> moved_axis(const MoveAxis& axis) {
  return {.size = Divisor<Unsigned>(axis.size),
          .step = Divisor<Unsigned>(axis.step),
          .first = static_cast<std::make_signed_t<Unsigned>>(axis.first),
          .count = static_cast<std::make_signed_t<Unsigned>>(axis.count),
          .is_whole = axis.is_full(),
          .out_stride = axis.out_stride,
          .in_stride = axis.in_stride};
}

// What both ways keep of a plan.
struct Moved {
  template <class Plan>
  explicit Moved(const Plan& plan) : element(size_of(plan.whole.dtype)), elements(output_of(plan).count()) {
    if (!is_empty(plan)) movement = movement_of(plan);
  }

  [[nodiscard]] const std::byte* in(const Bindings& bindings) const {
    return bindings.input<std::byte>(0) + movement.in_offset * static_cast<std::int64_t>(element);
  }
  [[nodiscard]] std::byte* out(const Bindings& bindings) const {
    return bindings.output<std::byte>(0) + movement.out_offset * static_cast<std::int64_t>(element);
  }

  std::size_t element;  // bytes
  std::int64_t elements;
  Movement movement;
};

// ---- gather --------------------------------------------------------------------------------------------

class Gather {
 public:
  template <class Plan>
  explicit Gather(const Plan& plan) : moved_(plan) {
    if (moved_.elements == 0) return;
    move_.elements = moved_.elements;
    move_.rank = moved_.movement.rank;
    for (int i = 0; i < move_.rank; ++i)
      move_.axes[i] = moved_axis<std::uint64_t>(moved_.movement.axes[move_.rank - 1 - i]);
  }

  cudaError_t launch(const Bindings& bindings, cudaStream_t stream) const {
    return move_gather(moved_.element, moved_.in(bindings), moved_.out(bindings), move_, stream);
  }

 private:
  Moved moved_;
  GatherMove move_;
};

// ---- rows ----------------------------------------------------------------------------------------------

// The threads that share the rows of the innermost outer axis; one row is an axis of one position.
std::int64_t rows_of(const Movement& m, std::int64_t rows_of_thread) {
  return m.rank == 1 ? 1 : (m.axes[m.rank - 2].size + rows_of_thread - 1) / rows_of_thread;
}
// All threads, with so many vectors in a row.
std::int64_t row_threads(const Movement& m, std::int64_t vectors, std::int64_t rows_of_thread) {
  std::int64_t threads = vectors * rows_of(m, rows_of_thread);
  for (int i = 0; i < m.rank - 2; ++i) threads *= m.axes[i].size;
  return threads;
}

// Kernels number threads and positions with 32 bits; offsets have 64.
template <class Plan>
std::string refuse_rows(const Plan& plan) {
  if (is_empty(plan)) return {};
  const Movement m = movement_of(plan);
  if (m.run().out_stride != 1) return "the innermost axis of the output is not contiguous";
  for (int i = 0; i < m.rank; ++i) {
    if (m.axes[i].size > kMost32) return "an axis of the output has 2^31 elements or more";
  }
  if (row_threads(m, m.run().size, kMostRowsOfThread) > kMost32)
    return "the output has more elements than 2^31 threads take";
  if (std::abs(m.run().in_stride) > kMost32) return "the innermost stride of the input is 2^31 or more";
  return {};
}

class Rows {
 public:
  template <class Plan>
  explicit Rows(const Plan& plan) : moved_(plan) {
    if (moved_.elements == 0) return;
    const Movement& m = moved_.movement;
    move_.run = moved_axis<std::uint32_t>(m.run());
    move_.outer = std::max(m.rank - 1, 1);  // one row is an axis of one position
    for (int i = 0; i < m.rank - 1; ++i) move_.axes[i] = moved_axis<std::uint32_t>(m.axes[m.rank - 2 - i]);
    move_.side_by_side = move_.axes[0].step.value > 1;
    linear_.elements = moved_.elements;
    linear_.row = static_cast<std::int32_t>(m.run().size);
    linear_.rows_32 = Divisor<std::uint32_t>(m.run().size);
    linear_.rows_64 = Divisor<std::uint64_t>(m.run().size);
    linear_.run = move_.run;
    linear_.outer = m.rank - 1;
    std::copy_n(move_.axes, linear_.outer, linear_.axes);
  }

  cudaError_t launch(const Bindings& bindings, cudaStream_t stream) const {
    if (moved_.elements == 0) return cudaSuccess;
    const std::byte* in = moved_.in(bindings);
    std::byte* out = moved_.out(bindings);
    const std::size_t width = width_of(out);
    const std::int64_t row = moved_.movement.run().size / elements(width);
    const RowMode mode = mode_of(in, width);
    if (is_linear(width, mode)) {
      LinearMove move = linear_;
      move.before = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(out) % kLinearWidth / moved_.element);
      return move_linear(moved_.element, linear_mode(), in, out, move, stream);
    }
    RowMove move = move_;
    move.rows_of_thread = mode == RowMode::copy && !move.side_by_side ? 1 : kMostRowsOfThread;
    move.row = Divisor<std::uint32_t>(row);
    move.rows = Divisor<std::uint32_t>(rows_of(moved_.movement, move.rows_of_thread));
    move.threads = row_threads(moved_.movement, row, move.rows_of_thread);
    return move_rows(moved_.element, width, mode, in, out, move, stream);
  }

 private:
  [[nodiscard]] std::int64_t elements(std::size_t width) const {
    return static_cast<std::int64_t>(width / moved_.element);
  }

  // Whether rows that are no vectors, or whose vectors begin anywhere in the input, are better taken as one run.
  [[nodiscard]] bool is_linear(std::size_t width, RowMode mode) const {
    const Movement& m = moved_.movement;
    const bool neighbours = m.run().step == 1 && std::abs(m.run().in_stride) == 1;
    return m.packed == 0 && m.run().size >= elements(kLinearWidth) &&
           moved_.elements / elements(kLinearWidth) < kMost32 &&
           (width < kLinearWidth || (mode == RowMode::elements && neighbours));
  }
  [[nodiscard]] LinearMode linear_mode() const {
    const MoveAxis& run = moved_.movement.run();
    if (run.step == 2) return LinearMode::spread;
    if (run.step != 1) return LinearMode::elements;
    if (run.in_stride == 1) return LinearMode::forward;
    return run.in_stride == -1 ? LinearMode::backward : LinearMode::apart;
  }

  // The widest vectors that every row of the output is made of.
  [[nodiscard]] std::size_t width_of(const std::byte* out) const {
    for (const std::size_t width : {16, 8}) {
      if (width <= moved_.element) break;
      if (moved_.movement.run().size % elements(width) == 0 && rows_begin(out, width, &MoveAxis::out_stride))
        return width;
    }
    return moved_.element;
  }

  [[nodiscard]] RowMode mode_of(const std::byte* in, std::size_t width) const {
    const MoveAxis& run = moved_.movement.run();
    const std::int64_t count = elements(width);
    const auto begins = [&](std::int64_t offset, std::size_t bytes) {
      return rows_begin(in + offset * static_cast<std::int64_t>(moved_.element), bytes, &MoveAxis::in_stride);
    };
    if (count == 1) return RowMode::elements;
    if (run.step == 1 && run.in_stride == 1 && begins(-run.first, width)) return RowMode::copy;
    if (run.step == 1 && run.in_stride == -1 && begins(run.first + 1, width)) return RowMode::reverse;
    // Position 0 is at an even distance from `first`, or takes half a vector less one element.
    const std::int64_t before = run.first % 2 == 0 ? run.first / 2 : (run.first - 1) / 2;
    if (run.step == 2 && run.in_stride == 1 && width / 2 >= moved_.element && begins(-before, width / 2))
      return RowMode::spread;
    return RowMode::elements;
  }

  // Whether what lies there, and as far apart as the rows are, begins at multiples of some bytes.
  [[nodiscard]] bool rows_begin(const std::byte* data, std::size_t bytes, std::int64_t MoveAxis::*stride) const {
    if (!is_aligned(data, bytes)) return false;
    const Movement& m = moved_.movement;
    for (int i = 0; i < m.rank - 1; ++i) {
      if (m.axes[i].*stride * static_cast<std::int64_t>(moved_.element) % static_cast<std::int64_t>(bytes) != 0)
        return false;
    }
    return true;
  }

  Moved moved_;
  RowMove move_;
  LinearMove linear_;
};

constexpr Implementation<SlicePlan> kSlice[] = {
    {"rows", refuse_rows<SlicePlan>, make<Slice, Rows>},
    {"gather", accept_all<SlicePlan>, make<Slice, Gather>},
};
constexpr Implementation<SliceGradPlan> kSliceGrad[] = {
    {"rows", refuse_rows<SliceGradPlan>, make<SliceGrad, Rows>},
    {"gather", accept_all<SliceGradPlan>, make<SliceGrad, Gather>},
};

}  // namespace

std::span<const Implementation<SlicePlan>> slice_implementations() { return kSlice; }
std::span<const Implementation<SliceGradPlan>> slice_grad_implementations() { return kSliceGrad; }

}  // namespace bp::cuda
