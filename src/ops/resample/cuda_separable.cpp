// SPDX-License-Identifier: Apache-2.0
// Which gradients the separable kernel takes, and in which shape.
#include "ops/resample/cuda_separable.h"

#include "backends/cuda/kernel.h"
#include "backends/cuda/memory.h"
#include "ops/resample/cuda_resample.h"
#include "ops/resample/cuda_roles.h"

#include <algorithm>
#include <limits>

namespace bp::cuda {

namespace {

ResampleAxis sizes_of(const RoleAxis& axis) {
  return {.inputs = static_cast<std::int32_t>(axis.to), .outputs = static_cast<std::int32_t>(axis.from)};
}

// ---- Shapes --------------------------------------------------------------------------------------------

// `staged`: by copies in bulk where there are such shapes. They take elements behind the last border of 16 bytes of the
// tensor one by one, into room that is not used again if no other row ends there: so rows must be further apart.
SeparableShape shape_of(const Roles& r, DType dtype, bool unit_weights, bool staged) {
  using enum SeparableShape;
  const auto dy_by = [&](int count) {
    if (r.planar)
      return divides(
          count, {r.columns.from, r.batch.from_stride, r.channel.from_stride, r.depth.from_stride, r.rows.from_stride});
    return divides(count,
                   {r.columns.from * r.channel.to, r.batch.from_stride, r.depth.from_stride, r.rows.from_stride});
  };
  const bool half = size_of(dtype) == 2;
  staged = staged && half && r.rows.from_stride >= 8;
  const SeparableShape single_columns = staged ? staged_columns : odd_columns;
  const SeparableShape single_channels = staged ? staged_channels : odd_channels;
  if (r.planar) {
    if (r.volume) return dy_by(4) ? columns_volume : odd_columns_volume;
    return dy_by(4) ? columns : dy_by(2) ? even_columns : single_columns;
  }
  const auto both_by = [&](int count) {
    return r.channel.to % count == 0 && dy_by(count) &&
           divides(count, {r.batch.to_stride, r.depth.to_stride, r.rows.to_stride, r.columns.to_stride});
  };
  if (r.volume) return both_by(4) ? channels_volume : odd_channels_volume;
  if (unit_weights && half && both_by(8)) return half_channels;
  if (!both_by(4)) {
    if (r.channel.to % 4 == 0) return single_channels;
    return half && dy_by(8) ? half_few_channels : dy_by(4) ? few_channels : single_channels;
  }
  const bool shrinks = r.rows.from * r.columns.from < r.rows.to * r.columns.to;
  return unit_weights || shrinks ? channels_shrunk : channels;
}

// ---- All of it -----------------------------------------------------------------------------------------

struct Prepared {
  Roles roles{};
  SeparableKind kind{};
  ResampleTables depth{}, rows{}, columns{};
  ResampleCut cut{};
  ResampleGrid grid{};
};

// Empty: it is prepared, but for the tables' addresses. `staged`: for a device that copies in bulk.
std::string prepare(const ResampleGradPlan& plan, bool staged, Prepared& p) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  p.kind.dtype = plan.dx.dtype;
  if (plan.dx.empty() || plan.dy.empty()) return "a tensor is empty";
  if (p.kind.dtype == DType::f64) return "the type is f64";
  if (std::string why = assign_roles(Resampling(plan), p.roles); !why.empty()) return why;
  const Roles& r = p.roles;
  for (const RoleAxis* axis : {&r.batch, &r.channel, &r.depth, &r.rows, &r.columns}) {
    if (axis->to > kMost || axis->from > kMost) return "an axis is too long";
  }
  if (r.batch.to > kMost / r.channel.to || r.columns.from > kMost / r.channel.to) return "an axis is too long";
  auto depth = tables_of(plan, r.depth), rows = tables_of(plan, r.rows), columns = tables_of(plan, r.columns);
  if (!depth || !rows || !columns) return "an axis has sums of more than 128 terms, or a table that no scale makes";
  for (std::size_t i = 0; r.volume && i < depth->runs.size(); i += kSeparableDepths) {
    const std::size_t last = std::min(i + kSeparableDepths, depth->runs.size()) - 1;
    if (depth->runs[last].end - depth->runs[i].begin > kMostDepthOutputs) return "the scale of the depth is too large";
  }
  const bool unit = depth->unit_weights && rows->unit_weights && columns->unit_weights;
  const ResampleTables& first = r.volume ? *depth : *rows;
  p.kind.shape = shape_of(r, p.kind.dtype, unit, staged);
  p.kind.exact = unit ? Exact::all : size_of(p.kind.dtype) == 2 && first.short_weights ? Exact::first : Exact::none;
  p.cut = {.batch = static_cast<std::uint32_t>(r.batch.to),
           .channels = static_cast<std::uint32_t>(r.channel.to),
           .depth = sizes_of(r.depth),
           .rows = sizes_of(r.rows),
           .columns = sizes_of(r.columns)};
  p.grid = cut_separable(p.kind, p.cut, columns->runs.data());
  if (p.grid.threads == 0) return "the scale of the columns is too large for so many channels";
  if (p.grid.blocks > static_cast<std::uint64_t>(kMost)) return "there are too many blocks";
  p.depth = std::move(*depth);
  p.rows = std::move(*rows);
  p.columns = std::move(*columns);
  return {};
}

class Separable {
 public:
  explicit Separable(const ResampleGradPlan& plan) : otherwise_(plan) {
    Prepared p;
    // A staged shape has more blocks: where they are too many, the other takes the plan, which it did a moment ago.
    if (size_of(plan.dx.dtype) != 2 || !can_stage() || !prepare(plan, true, p).empty()) {
      p = {};
      (void)prepare(plan, false, p);
    }
    roles_ = p.roles;
    kind_ = p.kind;
    cut_ = p.cut;
    grid_ = p.grid;
    require(ResampleGrad::kName, "create", prepare_separable(kind_, grid_));
    const std::array axes{&cut_.depth, &cut_.rows, &cut_.columns};
    const std::array tables{&p.depth, &p.rows, &p.columns};
    std::array<std::array<std::size_t, 3>, 3> places{};
    for (std::size_t i = 0; i < 3; ++i) {
      places[i] = {tables_.add<FedInputs>(tables[i]->fed), tables_.add<OutputRun>(tables[i]->runs),
                   tables_.add<float>(tables[i]->weights)};
    }
    tables_.upload(ResampleGrad::kName);
    for (std::size_t i = 0; i < 3; ++i) {
      axes[i]->fed = tables_.at<FedInputs>(places[i][0]);
      axes[i]->runs = tables_.at<OutputRun>(places[i][1]);
      axes[i]->weights = tables_.at<float>(places[i][2]);
    }
  }

  cudaError_t launch(const Bindings& bindings, cudaStream_t stream) const {
    const auto views = views_of(bindings, roles_, kind_.dtype, together(kind_.shape));
    if (!views) return otherwise_.launch(bindings, stream);
    return resample_separable(kind_, cut_, grid_, views->from, views->to, stream);
  }

 private:
  Roles roles_{};
  SeparableKind kind_{};
  ResampleCut cut_{};
  ResampleGrid grid_{};
  Tables tables_;
  ResampleGatherer otherwise_;  // for memory that does not begin where vectors do
};

}  // namespace

std::string refuse_separable(const ResampleGradPlan& plan) {
  Prepared unused;
  return prepare(plan, false, unused);
}

std::unique_ptr<Kernel> make_separable(std::shared_ptr<const ResampleGradPlan> plan, const Settings& settings) {
  return make<ResampleGrad, Separable>(std::move(plan), settings);
}

}  // namespace bp::cuda
