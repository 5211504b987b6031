// SPDX-License-Identifier: Apache-2.0
// Which resamples have sums of at most two terms along each axis.
#include "ops/resample/cuda_near.h"

#include "backends/cuda/kernel.h"
#include "backends/cuda/memory.h"
#include "ops/resample/cuda_resample.h"
#include "ops/resample/cuda_roles.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

namespace bp::cuda {

namespace {

// ---- One axis ------------------------------------------------------------------------------------------

struct NearAxis {
  std::vector<NearTerms> terms{};
  int most = 1;  // terms of an element
  bool unit = true;
  bool moves = true;  // its bits do
};

// `step` bytes lead from one element that is read to the next. Nothing where an element has more than two terms, or two
// that are no neighbours, or one of weight 0, as tables may have it: 0 times infinity is a NaN.
std::optional<NearAxis> near_axis(const Resampling& of, const RoleAxis& axis, std::int64_t step) {
  const auto count = static_cast<std::size_t>(axis.to);
  NearAxis result{.terms = std::vector<NearTerms>(count + kNearBeyond)};
  if (axis.of < 0 || of.axes[axis.of].left_alone) {
    for (std::size_t i = 0; i < count; ++i) result.terms[i] = {static_cast<std::int64_t>(i) * step, {1, 0}};
    return result;
  }
  const AxisTable& table = of.axes[axis.of];
  result.moves = table.movement;
  for (std::size_t i = 0; i < count; ++i) {
    const auto begin = static_cast<std::size_t>(table.begin[i]), end = static_cast<std::size_t>(table.begin[i + 1]);
    if (begin == end) continue;
    if (end - begin > 2 || table.index[end - 1] - table.index[begin] != static_cast<std::int64_t>(end - begin - 1))
      return std::nullopt;
    result.most = std::max(result.most, static_cast<int>(end - begin));
    result.terms[i].offset = table.index[begin] * step;
    for (std::size_t k = begin; k < end; ++k) {
      if (table.weight[k] == 0) return std::nullopt;
      result.terms[i].weights[k - begin] = static_cast<float>(table.weight[k]);
      result.unit &= table.weight[k] == 1;
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
  if (kind.planar) return divides(moved.out, {r.columns.to, r.batch.to_stride, r.channel.to_stride, r.rows.to_stride});
  return divides(moved.in, {r.channel.to, r.batch.from_stride, r.rows.from_stride, r.columns.from_stride}) &&
         divides(moved.out, {r.batch.to_stride, r.rows.to_stride, r.columns.to_stride});
}

// False where there are too many threads.
bool cut(const NearKind& kind, const Roles& r, NearProblem& p) {
  const std::uint32_t groups = divide_up(r.columns.to, near_columns(kind));
  const std::uint32_t channels = divide_up(r.channel.to, near_channels(kind));
  constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max(), kFewThreads = 1 << 15;
  const std::uint64_t planes = static_cast<std::uint64_t>(r.batch.to) * channels;
  if (planes > kMost || planes * groups > kMost) return false;
  // Long strips find their columns once for many rows. In short ones what is written at a time lies closer together,
  // which memory likes: it pays where rows are of many bytes, or are little work. A small problem needs the threads.
  int strip = 16;
  if (kind.dtype == DType::f32) strip /= 2;
  if (kind.unit || kind.sums == NearSums::none) strip /= 2;
  while (strip > kNearAhead && planes * groups * divide_up(r.rows.to, strip) < kFewThreads) strip /= 2;
  const std::uint32_t strips = divide_up(r.rows.to, strip);
  const std::uint64_t threads = planes * groups * strips;
  if (threads > kMost) return false;
  p.rows = static_cast<std::int32_t>(r.rows.to);
  p.channels = Divisor<std::uint32_t>(channels);
  p.groups = Divisor<std::uint32_t>(groups);
  p.strips = Divisor<std::uint32_t>(strips);
  p.strip = static_cast<std::int32_t>(divide_up(r.rows.to, strips));
  p.threads = static_cast<std::uint32_t>(threads);
  return true;
}

// Empty: it is prepared, but for the tables' addresses.
std::string prepare(const Resampling& of, NearSums sums, Prepared& p) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() / 4;
  const DType dtype = p.kind.dtype = of.to.dtype;
  if (of.to.empty() || of.from.empty()) return "a tensor is empty";
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) return "the type is not f32, f16 or bf16";
  if (std::string why = assign_roles(of, p.roles); !why.empty()) return why;
  const Roles& r = p.roles;
  if (r.volume) return "three axes are resampled";
  for (const RoleAxis* axis : {&r.batch, &r.channel, &r.rows, &r.columns}) {
    if (axis->to > kMost || axis->from > kMost) return "an axis is too long";
  }
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  auto rows = near_axis(of, r.rows, r.rows.from_stride * size);
  auto columns = near_axis(of, r.columns, r.columns.from_stride * size);
  if (!rows || !columns) return "an element has more than two terms along an axis, or a table that no scale makes";
  p.kind.sums = sums == NearSums::columns_first && rows->moves && columns->moves ? NearSums::none : sums;
  p.kind.planar = r.planar;
  p.kind.terms = std::max(rows->most, columns->most);
  p.kind.unit = rows->unit && columns->unit;
  p.kind.aligned = moves_together(p.kind, r);
  if (!cut(p.kind, r, p.problem)) return "there are too many planes";
  // Rows that all lie in one place have another one after each of them.
  const bool in_one_place = r.rows.from > 1 && r.rows.from_stride == 0;
  p.problem.last_row = in_one_place ? -1 : (r.rows.from - 1) * r.rows.from_stride * size;
  p.rows = std::move(rows->terms);
  p.columns = std::move(columns->terms);
  return {};
}

template <class Op>
constexpr NearSums kSumsOf = std::is_same_v<Op, Resample> ? NearSums::columns_first : NearSums::rows_first;

template <class Op>
std::string refuse(const typename Op::Plan& plan) {
  Prepared unused;
  return prepare(Resampling(plan), kSumsOf<Op>, unused);
}

template <class Op>
class Near {
 public:
  explicit Near(const typename Op::Plan& plan) : otherwise_(plan) {
    Prepared p;
    (void)prepare(Resampling(plan), kSumsOf<Op>, p);  // it did not refuse a moment ago
    roles_ = p.roles;
    kind_ = p.kind;
    problem_ = p.problem;
    const std::size_t rows = tables_.add<NearTerms>(p.rows);
    const std::size_t columns = tables_.add<NearTerms>(p.columns);
    tables_.upload(Op::kName);
    problem_.row_terms = tables_.at<NearTerms>(rows);
    problem_.column_terms = tables_.at<NearTerms>(columns);
  }

  cudaError_t launch(const Bindings& bindings, cudaStream_t stream) const {
    const auto views = views_of(bindings, roles_, kind_.dtype, together(kind_));
    if (!views) return otherwise_.launch(bindings, stream);
    return resample_near(kind_, problem_, views->from, views->to, stream);
  }

 private:
  Roles roles_{};
  NearKind kind_{};
  NearProblem problem_{};
  Tables tables_;
  ResampleGatherer otherwise_;  // for memory that does not begin where vectors do
};

}  // namespace

std::string refuse_near(const ResampleGradPlan& plan) { return refuse<ResampleGrad>(plan); }
std::unique_ptr<Kernel> make_near(std::shared_ptr<const ResampleGradPlan> plan, const Settings& settings) {
  return make<ResampleGrad, Near<ResampleGrad>>(std::move(plan), settings);
}

std::string refuse_near_forward(const ResamplePlan& plan) { return refuse<Resample>(plan); }
std::unique_ptr<Kernel> make_near_forward(std::shared_ptr<const ResamplePlan> plan, const Settings& settings) {
  return make<Resample, Near<Resample>>(std::move(plan), settings);
}

}  // namespace bp::cuda
