// SPDX-License-Identifier: Apache-2.0
// Resample and its gradient on CUDA: the implementation lists and what each prepares.
#include "ops/resample/cuda.h"

#include "backends/cuda/kernel.h"
#include "backends/cuda/memory.h"
#include "ops/resample/cuda_resample.h"
#include "ops/resample/cuda_roles.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>

namespace bp::cuda {

namespace {

template <class Values>
auto values_of(const Values& values) {
  return std::span<const typename Values::value_type>(values);
}

// Whether the elements of the output can be counted in 32 bits, and those of the tables, and how far these lead.
bool fits_32_bits(const Resampling& of) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (of.to.count() > kMost) return false;
  for (int i = 0; i < of.to.rank; ++i) {
    if (static_cast<std::int64_t>(of.axes[i].index.size()) > kMost - kSumBlock) return false;
    if (std::abs(of.from.strides[i]) * (of.from.sizes[i] - 1) > kMost) return false;
  }
  return true;
}

// Both directions: a sum for each element of the output, from tables of its rows.
template <class Int>
class Gather {
 public:
  explicit Gather(const ResamplePlan& plan) : dtype_(plan.x.dtype) {
    if (plan.y.empty()) return;
    // Axes from last to first: the last is innermost.
    order(plan.y, plan.x, plan.axes, [](const AxisTable& table) { return table.movement; });
    for (int axis = 0; axis < plan.y.rank; ++axis) nest(axis);
    moves_ = gather_.levels == 0;
    gather_.block = std::numeric_limits<Int>::max();
    upload(Resample::kName, plan.axes);
  }
  explicit Gather(const ResampleGradPlan& plan) : dtype_(plan.dx.dtype) {
    if (plan.dx.empty()) return;
    gather_.nothing_comes_in = plan.dy.empty();
    // Axes from first to last: the first is innermost.
    order(plan.dx, plan.dy, plan.axes,
          [&](const AxisTable& table) { return table.left_alone || gather_.nothing_comes_in; });
    for (int axis = plan.dx.rank - 1; axis >= 0; --axis) nest(axis);
    gather_.block = kSumBlock;
    upload(ResampleGrad::kName, plan.axes);
  }

  cudaError_t launch(const Bindings& bindings, cudaStream_t stream) const {
    const auto run = moves_ ? resample_move<Int> : resample_sum<Int>;
    return run(dtype_, bindings.inputs[0], bindings.outputs[0], gather_, stream);
  }

 private:
  // The axes in the order of the output's memory, so that neighbouring threads write neighbouring elements.
  template <class Moves>
  void order(const Tensor& out, const Tensor& in, const std::array<AxisTable, kMaxRank>& tables, const Moves& moves) {
    gather_.count = out.count();
    gather_.rank = out.rank;
    std::iota(axes_.begin(), axes_.end(), 0);
    std::stable_sort(axes_.begin(), axes_.begin() + out.rank,
                     [&](int a, int b) { return std::abs(out.strides[a]) < std::abs(out.strides[b]); });
    for (int i = 0; i < out.rank; ++i) {
      const int axis = axes_[i];
      gather_.axes[i].size = Divisor<std::make_unsigned_t<Int>>(out.sizes[axis]);
      gather_.axes[i].out_stride = out.strides[axis];
      gather_.axes[i].in_stride = in.strides[axis];
      sums_[axis] = !moves(tables[axis]);
    }
  }

  void nest(int axis) {
    if (!sums_[axis]) return;
    const auto place = static_cast<int>(std::find(axes_.begin(), axes_.end(), axis) - axes_.begin());
    gather_.axes[place].level = gather_.levels;
    gather_.axis_of_level[gather_.levels++] = place;
  }

  void upload(std::string_view op, const std::array<AxisTable, kMaxRank>& tables) {
    if (gather_.nothing_comes_in) return;
    struct Places {
      std::size_t begin = 0, offset = 0, weight = 0;
    };
    std::array<Places, kMaxRank> places{};
    for (int i = 0; i < gather_.rank; ++i) {
      const AxisTable& table = tables[axes_[i]];
      if (table.left_alone) continue;
      std::vector<Int> offsets;
      for (const std::int64_t index : table.index)
        offsets.push_back(static_cast<Int>(index * gather_.axes[i].in_stride));
      places[i].offset = tables_.add(values_of(offsets));
      if (!sums_[axes_[i]]) continue;
      places[i].begin = tables_.add(values_of(std::vector<Int>(table.begin.begin(), table.begin.end())));
      places[i].weight = accumulates_in_f64(dtype_)
                             ? tables_.add(values_of(table.weight))
                             : tables_.add(values_of(std::vector<float>(table.weight.begin(), table.weight.end())));
    }
    tables_.upload(op);
    for (int i = 0; i < gather_.rank; ++i) {
      if (tables[axes_[i]].left_alone) continue;
      gather_.axes[i].offset = tables_.at<Int>(places[i].offset);
      if (!sums_[axes_[i]]) continue;
      gather_.axes[i].begin = tables_.at<Int>(places[i].begin);
      gather_.axes[i].weight = tables_.at<std::byte>(places[i].weight);
    }
  }

  DType dtype_;
  bool moves_ = false;
  std::array<int, kMaxRank> axes_{};   // of the tensors, in the kernel's order
  std::array<bool, kMaxRank> sums_{};  // by axis of the tensors
  ResampleGather<Int> gather_;
  Tables tables_;
};

}  // namespace

// In 32 bits, or in 64.
struct ResampleGatherer::Counted {
  std::unique_ptr<const Gather<std::int32_t>> narrow;
  std::unique_ptr<const Gather<std::int64_t>> wide;
};

template <class Plan>
void ResampleGatherer::gather(const Plan& plan) {
  Counted counted;
  if (fits_32_bits(Resampling(plan))) {
    counted.narrow = std::make_unique<Gather<std::int32_t>>(plan);
  } else {
    counted.wide = std::make_unique<Gather<std::int64_t>>(plan);
  }
  counted_ = std::make_unique<const Counted>(std::move(counted));
}
ResampleGatherer::ResampleGatherer(const ResamplePlan& plan) { gather(plan); }
ResampleGatherer::ResampleGatherer(const ResampleGradPlan& plan) { gather(plan); }
ResampleGatherer::~ResampleGatherer() = default;

cudaError_t ResampleGatherer::launch(const Bindings& bindings, cudaStream_t stream) const {
  return counted_->narrow ? counted_->narrow->launch(bindings, stream) : counted_->wide->launch(bindings, stream);
}

namespace {

constexpr Implementation<ResamplePlan> kResample[] = {
    {"near", refuse_near_forward, make_near_forward},
    {"gather", accept_all<ResamplePlan>, make<Resample, ResampleGatherer>},
};
constexpr Implementation<ResampleGradPlan> kResampleGrad[] = {
    {"doubled", refuse_doubled, make_doubled},
    {"near", refuse_near, make_near},
    {"separable", refuse_separable, make_separable},
    {"gather", accept_all<ResampleGradPlan>, make<ResampleGrad, ResampleGatherer>},
};

}  // namespace

std::span<const Implementation<ResamplePlan>> resample_implementations() { return kResample; }
std::span<const Implementation<ResampleGradPlan>> resample_grad_implementations() { return kResampleGrad; }

}  // namespace bp::cuda
