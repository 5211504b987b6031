// SPDX-License-Identifier: Apache-2.0
// Which gradients are scattered.
#include "ops/max_pool/cuda_scatter.h"

#include "backends/cuda/kernel.h"
#include "ops/max_pool/cuda_max_pool.h"

#include <algorithm>
#include <limits>

namespace bp::cuda {

namespace {

// Of windows that reach an element: where there are fewer, to ask them all is faster. As measured on an H200.
constexpr std::int64_t kLeastReach = 16;
// Where a warp's channels are planes apart, each of its loads goes to as many places: only many windows are worth that.
constexpr std::int64_t kLeastReachOfPlanes = 81;
constexpr std::int64_t kLeastChannels = 16;  // of 32 that a warp has room for
constexpr std::int64_t kMostTaps = kNoWinner<std::uint8_t>;
constexpr std::int64_t kMostLength =
    std::numeric_limits<std::int32_t>::max() / 4;  // with room for paddings and extents

ScatterAxis axis_of(const PoolAxis& axis) {
  const auto as_int = [](std::int64_t v) { return static_cast<int>(v); };
  return {.input = as_int(axis.input),
          .output = as_int(axis.output),
          .window = as_int(axis.window),
          .stride = as_int(axis.stride),
          .dilation = as_int(axis.dilation),
          .padding = as_int(axis.start_padding),
          .extent = as_int(axis.extent())};
}

class Scatter {
 public:
  explicit Scatter(const MaxPoolGradPlan& plan)
      : report_(plan), winners_(plan.winners.tensor), dy_(plan.dy), dx_(plan.dx) {
    (void)plan_scatter(plan.geometry, dx_.dtype, {&winners_, &dy_, &dx_}, pool_);  // it did not refuse a moment ago
    require(MaxPoolGrad::kName, "create", prepare_scatter(pool_));
  }

  [[nodiscard]] static std::size_t workspace_bytes() { return sizeof(WrongWinnersFound); }

  cudaError_t launch(const Bindings& bindings, cudaStream_t stream) const {
    return scatter_channels(pool_, view(bindings.inputs[2], winners_), view(bindings.inputs[1], dy_),
                            view(bindings.outputs[0], dx_), static_cast<WrongWinnersFound*>(bindings.workspace),
                            stream);
  }

  void check(const void* workspace, cudaStream_t stream) const { report_.read(workspace, stream); }

 private:
  WrongWinnersReport report_;
  Tensor winners_, dy_, dx_;
  ScatterPool pool_;
};

}  // namespace

std::string plan_scatter(const PoolGeometry& g, DType dtype, std::initializer_list<const Tensor*> tensors,
                         ScatterPool& pool) {
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) return "the type is not f32, f16 or bf16";
  const PoolAxis &depth = g.axes[0], &rows = g.axes[1], &columns = g.axes[2];
  if (!is_trivial(depth)) return "there is a depth axis";
  if (g.taps() >= kMostTaps) return "windows have too many taps for bytes";
  const bool innermost = std::ranges::all_of(tensors, [](const Tensor* t) { return t->strides[1] == 1; });
  const std::int64_t least = innermost ? kLeastReach : kLeastReachOfPlanes;
  if (rows.window * columns.window < least * rows.stride * columns.stride) return "few windows reach an element";
  if (g.channels < kLeastChannels) return "there are few channels";
  for (const PoolAxis& axis : {rows, columns}) {
    const std::int64_t padded = axis.input + axis.start_padding + axis.end_padding;
    if (axis.input == 0 || padded > kMostLength || axis.output > kMostLength / axis.stride)
      return "a spatial axis is too long, or empty";
    if (axis.extent() < axis.stride) return "there are gaps between windows";
  }
  if (g.batch == 0 || g.batch > kMostLength / g.channels) return "there are too many planes, or none";
  pool = {.dtype = dtype,
          .cut = {.batch = static_cast<std::uint32_t>(g.batch),
                  .channels = static_cast<std::uint32_t>(g.channels),
                  .rows = axis_of(rows),
                  .columns = axis_of(columns)}};
  return cut_scatter(pool) ? std::string{} : "windows are too large for shared memory";
}

std::string refuse_scatter(const MaxPoolGradPlan& plan) {
  if (plan.winners.kind != WinnersKind::compact || plan.winners.tensor.dtype != DType::u8)
    return "the winners are not stored, or not compact in bytes";
  ScatterPool unused;
  return plan_scatter(plan.geometry, plan.dx.dtype, {&plan.winners.tensor, &plan.dy, &plan.dx}, unused);
}

std::unique_ptr<Kernel> make_scatter(std::shared_ptr<const MaxPoolGradPlan> plan, const Settings& settings) {
  return make<MaxPoolGrad, Scatter>(std::move(plan), settings);
}

}  // namespace bp::cuda
