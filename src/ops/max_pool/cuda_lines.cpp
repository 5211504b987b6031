// SPDX-License-Identifier: Apache-2.0
// Which gradients are made line by line.
#include "ops/max_pool/cuda_lines.h"

#include "backends/cuda/kernel.h"
#include "core/checked.h"
#include "ops/max_pool/cuda_max_pool.h"

#include <algorithm>
#include <limits>

namespace bp::cuda {

namespace {

constexpr std::int64_t kMostTaps = kNoWinner<std::uint8_t>;
constexpr std::int64_t kMost32 = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMostLength = kMost32 / 4;  // with room for paddings and extents

bool has_empty_window(const PoolAxis& axis) {
  for (std::int64_t o = 0; o < axis.output; ++o) {
    if (axis.first_tap(o) >= axis.end_tap(o)) return true;
  }
  return false;
}

LineAxis axis_of(const PoolAxis& axis) {
  return {.input = static_cast<int>(axis.input),
          .output = static_cast<int>(axis.output),
          .window = static_cast<int>(axis.window),
          .padding = static_cast<int>(axis.start_padding),
          .stride = Divisor<std::uint32_t>(axis.stride)};
}

// Without the alignment of dx.
LinePool pool_of(const MaxPoolGradPlan& plan) {
  const PoolGeometry& g = plan.geometry;
  const auto vectors = divide_up(g.axes[2].input, kLineBytes / static_cast<std::int64_t>(size_of(plan.dx.dtype)));
  return {.dtype = plan.dx.dtype,
          .threads = static_cast<std::uint32_t>(g.batch * g.channels * g.axes[1].input) * vectors,
          .vectors = Divisor<std::uint32_t>(vectors),
          .channels = Divisor<std::uint32_t>(g.channels),
          .all_rows = Divisor<std::uint32_t>(g.axes[1].input),
          .columns_of_window = Divisor<std::uint32_t>(g.axes[2].window),
          .rows = axis_of(g.axes[1]),
          .columns = axis_of(g.axes[2])};
}

class Lines {
 public:
  explicit Lines(const MaxPoolGradPlan& plan)
      : report_(plan), stored_(!plan.recomputes()), dy_(plan.dy), dx_(plan.dx), pool_(pool_of(plan)) {
    if (stored_) {
      winners_ = plan.winners.tensor;
    } else {
      winners_ = plan.dy;
      winners_.dtype = DType::u8;
      winners_.strides = packed_strides(plan.dy.shape());
      search_ = WinnerSearch(plan, winners_);
    }
  }

  [[nodiscard]] std::size_t workspace_bytes() const {
    return stored_ ? sizeof(WrongWinnersFound) : static_cast<std::size_t>(winners_.count());
  }

  cudaError_t launch(const Bindings& bindings, cudaStream_t stream) const {
    const void* winners = stored_ ? bindings.inputs[2] : bindings.workspace;
    if (!stored_) {
      const cudaError_t status = search_.launch(bindings.inputs[0], bindings.workspace, stream);
      if (status != cudaSuccess) return status;
    }
    LinePool pool = pool_;
    pool.in_vectors = is_in_vectors(bindings.outputs[0]);
    auto* found = stored_ ? static_cast<WrongWinnersFound*>(bindings.workspace) : nullptr;
    return gather_lines(pool, view(winners, winners_), view(bindings.inputs[1], dy_), view(bindings.outputs[0], dx_),
                        found, stream);
  }

  void check(const void* workspace, cudaStream_t stream) const {
    if (stored_) report_.read(workspace, stream);
  }

 private:
  [[nodiscard]] bool is_in_vectors(const void* dx) const {
    const auto in_row = static_cast<std::int64_t>(kLineBytes / size_of(dx_.dtype));
    const auto is = [&](int axis) { return dx_.sizes[axis] == 1 || dx_.strides[axis] % in_row == 0; };
    return is_aligned(dx, kLineBytes) && dx_.sizes[4] % in_row == 0 && is(0) && is(1) && is(3);
  }

  WrongWinnersReport report_;
  bool stored_;
  Tensor winners_, dy_, dx_;
  LinePool pool_;
  WinnerSearch search_;
};

}  // namespace

std::string refuse_lines(const MaxPoolGradPlan& plan) {
  const PoolGeometry& g = plan.geometry;
  const DType dtype = plan.dx.dtype;
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) return "the type is not f32, f16 or bf16";
  if (!is_trivial(g.axes[0])) return "there is a depth axis";
  if (g.taps() >= kMostTaps) return "windows have too many taps for bytes";
  const bool recomputes = plan.recomputes();
  if (!recomputes && (plan.winners.kind != WinnersKind::compact || plan.winners.tensor.dtype != DType::u8))
    return "the winners are not compact in bytes";
  const auto is_contiguous = [](const Tensor& t) { return t.strides[4] == 1; };
  if (!is_contiguous(plan.dy) || !is_contiguous(plan.dx) || (!recomputes && !is_contiguous(plan.winners.tensor)))
    return "rows are not contiguous";
  if (plan.dx.empty() || plan.dy.empty()) return "there is nothing to make";
  for (const PoolAxis& axis : {g.axes[1], g.axes[2]}) {
    if (axis.dilation != 1 && axis.window > 1) return "windows are dilated";
    const std::int64_t padded = axis.input + axis.start_padding + axis.end_padding;
    if (padded > kMostLength || axis.output > kMostLength / axis.stride) return "a spatial axis is too long";
    if (has_empty_window(axis)) return "a window is all padding";
  }
  const Checked rows = multiply(multiply(g.batch, g.channels), g.axes[1].input);
  const Checked elements = rows ? multiply(*rows, g.axes[2].input) : rows;
  const std::int64_t vectors = divide_up(g.axes[2].input, kLineBytes / static_cast<std::int64_t>(size_of(dtype)));
  if (!elements || *rows > kMost32 / vectors) return "dx has more than 2^31 vectors";
  return {};
}

std::unique_ptr<Kernel> make_lines(std::shared_ptr<const MaxPoolGradPlan> plan, const Settings& settings) {
  return make<MaxPoolGrad, Lines>(std::move(plan), settings);
}

}  // namespace bp::cuda
