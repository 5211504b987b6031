// SPDX-License-Identifier: Apache-2.0
// Which gradients have sums of at most two terms along each axis.
#include "ops/resample/cuda_near.h"

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

int most_terms(const ResampleTables& tables) {
  int most = 1;
  for (const OutputRun& run : tables.runs) most = std::max(most, run.end - run.begin);
  return most;
}

// Of at most two terms; `step` bytes lead from one output to the next.
std::vector<NearTerms> terms_of(const ResampleTables& tables, std::int64_t step) {
  const std::size_t inputs = tables.runs.size();
  std::vector<NearTerms> result(inputs + kNearBeyond);
  for (std::size_t i = 0; i < inputs; ++i) {
    const OutputRun run = tables.runs[i];
    result[i].offset = run.begin * step;
    for (std::int32_t k = 0; k < run.end - run.begin; ++k) {
      result[i].weights[k] = tables.weights[static_cast<std::size_t>(k) * inputs + i];
    }
  }
  return result;
}

// ---- Both of them --------------------------------------------------------------------------------------

struct Prepared {
  Roles roles{};
  NearKind kind{};
  NearProblem problem{};
  std::vector<NearTerms> rows{}, columns{};
};

Together together(const NearKind& kind) {
  return {near_channels(kind), kind.planar ? near_columns(kind) : near_channels(kind)};
}

// Whether the elements can move as they do in an aligned kind.
bool moves_together(NearKind kind, const Roles& r) {
  kind.aligned = true;
  const Together moved = together(kind);
  if (kind.planar) return divides(moved.out, {r.columns.inputs, r.batch.dx, r.channel.dx, r.rows.dx});
  return divides(moved.in, {r.channel.inputs, r.batch.dy, r.rows.dy, r.columns.dy}) &&
         divides(moved.out, {r.batch.dx, r.rows.dx, r.columns.dx});
}

// False where there are too many threads.
bool cut(const NearKind& kind, const Roles& r, NearProblem& p) {
  const std::uint32_t groups = divide_up(r.columns.inputs, near_columns(kind));
  const std::uint32_t channels = divide_up(r.channel.inputs, near_channels(kind));
  constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max(), kFewThreads = 1 << 15;
  const std::uint64_t planes = static_cast<std::uint64_t>(r.batch.inputs) * channels;
  if (planes > kMost || planes * groups > kMost) return false;
  // Long strips find their columns once for many rows; where a problem is small, short ones are more threads.
  int strip = 16;
  while (strip > kNearAhead && planes * groups * divide_up(r.rows.inputs, strip) < kFewThreads) strip /= 2;
  const std::uint32_t strips = divide_up(r.rows.inputs, strip);
  const std::uint64_t threads = planes * groups * strips;
  if (threads > kMost) return false;
  p.rows = static_cast<std::int32_t>(r.rows.inputs);
  p.channels = Divisor<std::uint32_t>(channels);
  p.groups = Divisor<std::uint32_t>(groups);
  p.strips = Divisor<std::uint32_t>(strips);
  p.strip = static_cast<std::int32_t>(divide_up(r.rows.inputs, strips));
  p.threads = static_cast<std::uint32_t>(threads);
  return true;
}

// Empty: it is prepared, but for the tables' addresses.
std::string prepare(const ResampleGradPlan& plan, Prepared& p) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() / 4;
  p.kind.dtype = plan.dx.dtype;
  if (plan.dx.empty() || plan.dy.empty()) return "a tensor is empty";
  if (p.kind.dtype == DType::f64) return "the type is f64";
  if (std::string why = assign_roles(plan, p.roles); !why.empty()) return why;
  const Roles& r = p.roles;
  if (r.volume) return "three axes are resampled";
  for (const RoleAxis* axis : {&r.batch, &r.channel, &r.rows, &r.columns}) {
    if (axis->inputs > kMost || axis->outputs > kMost) return "an axis is too long";
  }
  const auto rows = tables_of(plan, r.rows), columns = tables_of(plan, r.columns);
  if (!rows || !columns) return "an axis has sums of more than 128 terms, or a table that no scale makes";
  p.kind.planar = r.planar;
  p.kind.terms = std::max(most_terms(*rows), most_terms(*columns));
  if (p.kind.terms > 2) return "an element of dx has more than two terms along an axis";
  p.kind.unit = rows->unit_weights && columns->unit_weights;
  p.kind.aligned = moves_together(p.kind, r);
  if (!cut(p.kind, r, p.problem)) return "there are too many planes";
  const auto size = static_cast<std::int64_t>(size_of(p.kind.dtype));
  p.rows = terms_of(*rows, r.rows.dy * size);
  p.columns = terms_of(*columns, r.columns.dy * size);
  return {};
}

class Near {
 public:
  explicit Near(const ResampleGradPlan& plan) : otherwise_(plan) {
    Prepared p;
    (void)prepare(plan, p);  // it did not refuse a moment ago
    roles_ = p.roles;
    kind_ = p.kind;
    problem_ = p.problem;
    const std::size_t rows = tables_.add<NearTerms>(p.rows);
    const std::size_t columns = tables_.add<NearTerms>(p.columns);
    tables_.upload(ResampleGrad::kName);
    problem_.row_terms = tables_.at<NearTerms>(rows);
    problem_.column_terms = tables_.at<NearTerms>(columns);
  }

  cudaError_t launch(const Bindings& bindings, cudaStream_t stream) const {
    const auto views = views_of(bindings, roles_, kind_.dtype, together(kind_));
    if (!views) return otherwise_.launch(bindings, stream);
    return resample_near(kind_, problem_, views->dy, views->dx, stream);
  }

 private:
  Roles roles_{};
  NearKind kind_{};
  NearProblem problem_{};
  Tables tables_;
  ResampleGradGather otherwise_;  // for memory that does not begin where vectors do
};

}  // namespace

std::string refuse_near(const ResampleGradPlan& plan) {
  Prepared unused;
  return prepare(plan, unused);
}

std::unique_ptr<Kernel> make_near(std::shared_ptr<const ResampleGradPlan> plan, const Settings& settings) {
  return make<ResampleGrad, Near>(std::move(plan), settings);
}

}  // namespace bp::cuda
