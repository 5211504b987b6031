// SPDX-License-Identifier: Apache-2.0
// Which gradients are those of a doubling.
#include "ops/resample/cuda_doubled.h"

#include "backends/cuda/kernel.h"
#include "backends/cuda/memory.h"
#include "ops/resample/cuda_resample.h"
#include "ops/resample/cuda_roles.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace bp::cuda {

namespace {

// ---- One axis ------------------------------------------------------------------------------------------

struct DoubledAxis {
  std::vector<DoubledWeights> weights{};
  bool nearest = false;
  bool exact = false;
};

std::optional<DoubledAxis> doubled(const ResampleGradPlan& plan, const RoleAxis& axis) {
  if (axis.of < 0 || plan.axes[axis.of].left_alone || axis.from != 2 * axis.to) return std::nullopt;
  const std::optional<ResampleTables> tables = tables_of(plan, axis);
  if (!tables) return std::nullopt;
  const auto inputs = static_cast<std::int32_t>(axis.to), outputs = static_cast<std::int32_t>(axis.from);
  DoubledAxis result{.weights = std::vector<DoubledWeights>(tables->runs.size() + 1),
                     .nearest = tables->unit_weights,
                     .exact = tables->short_weights};
  for (std::int32_t i = 0; i < inputs; ++i) {
    const OutputRun run = tables->runs[static_cast<std::size_t>(i)];
    const std::int32_t first = result.nearest ? 2 * i : std::max(2 * i - 1, 0);
    const std::int32_t end = result.nearest ? 2 * i + 2 : std::min(2 * i + 3, outputs);
    if (run.begin != first || run.end != end) return std::nullopt;
    for (std::int32_t o = first; o < end; ++o) {
      result.weights[static_cast<std::size_t>(i)].of[o - (2 * i - 1)] =
          tables->weights[static_cast<std::size_t>(std::int64_t{o - first} * inputs + i)];
    }
  }
  return result;
}

// ---- All of them ---------------------------------------------------------------------------------------

struct Prepared {
  Roles roles{};
  DoubledKind kind{};
  DoubledProblem problem{};
  DoubledAxis depth{}, rows{}, columns{};
};

Together together(const DoubledKind& kind) {
  if (!kind.planar) return {kDoubledChannels, kDoubledChannels};
  const int columns = doubled_columns(kind), vector = 16 / static_cast<int>(size_of(kind.dtype));
  return {std::min(2 * columns, vector), columns};
}

// Empty: it is prepared, but for the weights' addresses.
std::string prepare(const ResampleGradPlan& plan, Prepared& p) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() / 4;
  p.kind.dtype = plan.dx.dtype;
  if (plan.dx.empty() || plan.dy.empty()) return "a tensor is empty";
  if (p.kind.dtype == DType::f64) return "the type is f64";
  if (std::string why = assign_roles(Resampling(plan), p.roles); !why.empty()) return why;
  const Roles& r = p.roles;
  for (const RoleAxis* axis : {&r.batch, &r.channel, &r.depth, &r.rows, &r.columns}) {
    if (axis->from > kMost) return "an axis is too long";
  }
  auto rows = doubled(plan, r.rows), columns = doubled(plan, r.columns);
  auto depth = r.volume ? doubled(plan, r.depth) : std::optional<DoubledAxis>(std::in_place);
  if (!rows || !columns || !depth) return "not two or three axes are doubled";
  p.kind.planar = r.planar;
  p.kind.volume = r.volume;
  p.kind.nearest = rows->nearest;
  if (columns->nearest != p.kind.nearest || (r.volume && depth->nearest != p.kind.nearest))
    return "some axes are nearest, others are not";
  p.kind.exact = size_of(p.kind.dtype) == 2 && (r.volume ? *depth : *rows).exact;
  const std::int64_t innermost = r.planar ? r.columns.to : r.channel.to;
  const std::int64_t dx_channel = r.planar ? r.channel.to_stride : 0, dy_channel = r.planar ? r.channel.from_stride : 0;
  const std::int64_t dx_column = r.planar ? 0 : r.columns.to_stride, dy_column = r.planar ? 0 : r.columns.from_stride;
  const Together moved = together(p.kind);
  if (!divides(moved.out, {innermost, r.batch.to_stride, dx_channel, r.depth.to_stride, r.rows.to_stride, dx_column}) ||
      !divides(moved.in, {r.batch.from_stride, dy_channel, r.depth.from_stride, r.rows.from_stride, dy_column}))
    return "rows are not aligned for vectors";
  p.problem = {.batch = static_cast<std::uint32_t>(r.batch.to),
               .channels = static_cast<std::uint32_t>(r.channel.to),
               .depth = static_cast<std::int32_t>(r.depth.to),
               .rows = static_cast<std::int32_t>(r.rows.to),
               .columns = static_cast<std::int32_t>(r.columns.to)};
  if (!cut_doubled(p.kind, p.problem)) return "there are too many planes";
  p.depth = std::move(*depth);
  p.rows = std::move(*rows);
  p.columns = std::move(*columns);
  return {};
}

class Doubled {
 public:
  explicit Doubled(const ResampleGradPlan& plan) : otherwise_(plan) {
    Prepared p;
    (void)prepare(plan, p);  // it did not refuse a moment ago
    roles_ = p.roles;
    kind_ = p.kind;
    problem_ = p.problem;
    if (kind_.nearest) return;
    const std::size_t depth = tables_.add<DoubledWeights>(p.depth.weights);
    const std::size_t rows = tables_.add<DoubledWeights>(p.rows.weights);
    const std::size_t columns = tables_.add<DoubledWeights>(p.columns.weights);
    tables_.upload(ResampleGrad::kName);
    problem_.depth_weights = tables_.at<DoubledWeights>(depth);
    problem_.row_weights = tables_.at<DoubledWeights>(rows);
    problem_.column_weights = tables_.at<DoubledWeights>(columns);
  }

  cudaError_t launch(const Bindings& bindings, cudaStream_t stream) const {
    const auto views = views_of(bindings, roles_, kind_.dtype, together(kind_));
    if (!views) return otherwise_.launch(bindings, stream);
    return resample_doubled(kind_, problem_, views->from, views->to, stream);
  }

 private:
  Roles roles_{};
  DoubledKind kind_{};
  DoubledProblem problem_{};
  Tables tables_;
  ResampleGatherer otherwise_;  // for memory that does not begin where vectors do
};

}  // namespace

std::string refuse_doubled(const ResampleGradPlan& plan) {
  Prepared unused;
  return prepare(plan, unused);
}

std::unique_ptr<Kernel> make_doubled(std::shared_ptr<const ResampleGradPlan> plan, const Settings& settings) {
  return make<ResampleGrad, Doubled>(std::move(plan), settings);
}

}  // namespace bp::cuda
