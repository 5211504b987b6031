// SPDX-License-Identifier: Apache-2.0
// Slice and its gradient on CUDA: the implementation lists and what each prepares.
#include "ops/slice/cuda.h"

#include "backends/cuda/kernel.h"
#include "ops/slice/movement.h"

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
          .first = axis.first,
          .count = axis.count,
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

// Kernels number vectors and positions with 32 bits; offsets have 64.
template <class Plan>
std::string refuse_rows(const Plan& plan) {
  if (is_empty(plan)) return {};
  const Movement m = movement_of(plan);
  if (m.run().out_stride != 1) return "the innermost axis of the output is not contiguous";
  if (output_of(plan).count() > kMost32) return "the output has 2^31 elements or more";
  for (int i = 0; i < m.rank; ++i) {
    if (m.axes[i].step > kMost32) return "a stride is 2^31 or more";
  }
  return {};
}

class Rows {
 public:
  template <class Plan>
  explicit Rows(const Plan& plan) : moved_(plan) {
    if (moved_.elements == 0) return;
    const Movement& m = moved_.movement;
    move_.outer = m.rank - 1;
    move_.run = moved_axis<std::uint32_t>(m.run());
    for (int i = 0; i < move_.outer; ++i) move_.axes[i] = moved_axis<std::uint32_t>(m.axes[m.rank - 2 - i]);
  }

  cudaError_t launch(const Bindings& bindings, cudaStream_t stream) const {
    if (moved_.elements == 0) return cudaSuccess;
    const std::byte* in = moved_.in(bindings);
    std::byte* out = moved_.out(bindings);
    std::size_t width = 16;
    while (width > moved_.element && !rows_begin_vectors(out, width)) width = width == 16 ? 8 : moved_.element;
    if (width < moved_.element) width = moved_.element;
    const auto elements = static_cast<std::int64_t>(width / moved_.element);
    RowMove move = move_;
    move.vectors = static_cast<std::uint32_t>(moved_.elements / elements);
    move.row = Divisor<std::uint32_t>(moved_.movement.run().size / elements);
    return move_rows(moved_.element, width, input_begins_vectors(in, width), in, out, move, stream);
  }

 private:
  // Whether every row of the output is made of whole vectors that begin where vectors do.
  [[nodiscard]] bool rows_begin_vectors(const std::byte* out, std::size_t width) const {
    const auto elements = static_cast<std::int64_t>(width / moved_.element);
    if (reinterpret_cast<std::uintptr_t>(out) % width != 0 || moved_.movement.run().size % elements != 0) return false;
    for (int i = 0; i < move_.outer; ++i) {
      if (move_.axes[i].out_stride % elements != 0) return false;
    }
    return true;
  }
  [[nodiscard]] bool input_begins_vectors(const std::byte* in, std::size_t width) const {
    const auto elements = static_cast<std::int64_t>(width / moved_.element);
    const MoveAxis& run = moved_.movement.run();
    if (run.step != 1 || run.in_stride != 1 || run.first % elements != 0) return false;
    if (reinterpret_cast<std::uintptr_t>(in) % width != 0) return false;
    for (int i = 0; i < move_.outer; ++i) {
      if (move_.axes[i].in_stride % elements != 0) return false;
    }
    return true;
  }

  Moved moved_;
  RowMove move_;
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
