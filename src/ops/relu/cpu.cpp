// SPDX-License-Identifier: Apache-2.0
// ReLU on vectors. A float is above zero exactly where its bits, as a signed number, are above zero and not above
// infinity's; so integers and floats of one width are one kernel, and no floating-point mode has a say.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/relu/cpu.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "backends/cpu/dispatch.h"
#include "backends/cpu/panels.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/runs-inl.h"
#include "backends/cpu/transpose-inl.h"
#include "core/nest.h"
#include "ops/relu/relu.h"

#ifndef BP_OPS_RELU_CPU_ONCE
#define BP_OPS_RELU_CPU_ONCE
namespace bp::cpu {

// What the kernel does with n elements of one run.
struct ReluRun {
  const void* x;
  const void* dy;  // null: relu
  void* out;
  std::int64_t x_stride, dy_stride, out_stride, n;
  std::size_t element;     // bytes
  std::uint64_t infinity;  // the bits above which a positive number is NaN
  bool nan_passes;
  bool past_cache;
};

// And with `width` of them, so far apart. Inputs that are innermost along that axis are turned.
struct ReluPanel {
  ReluRun run;
  std::int64_t width;
  std::int64_t x_across, dy_across, out_across;
  bool turns_x, turns_dy;
  const void* next_x;  // of the panel after this one; null: there is none
  const void* next_dy;
};

}  // namespace bp::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace bp::cpu::HWY_NAMESPACE {

template <class I>
struct Relu {
  I infinity;
  bool nan_passes;

  // Where x > 0, or x is NaN and that passes.
  template <class D, class V>
  HWY_INLINE auto passes(D d, V x) const {
    const auto positive = hn::Gt(x, hn::Zero(d));
    const auto limit = hn::Set(d, infinity);
    if (nan_passes) {
      return hn::Or(positive, hn::Gt(hn::And(x, hn::Set(d, std::numeric_limits<I>::max())), limit));
    }
    return hn::AndNot(hn::Gt(x, limit), positive);
  }
  [[nodiscard]] bool passes(I x) const {
    if (nan_passes && (x & std::numeric_limits<I>::max()) > infinity) return true;
    return x > 0 && x <= infinity;
  }
};

constexpr std::int64_t kBurstBytes = 2048;

template <class I>
HWY_INLINE void run_packed(const Relu<I>& relu, const I* x, const I* dy, I* out, std::int64_t n, bool past_cache) {
  const hn::ScalableTag<I> d;
  const std::int64_t step = lanes(d);
  const auto one = [&](std::int64_t at) HWY_ATTR {
    return hn::IfThenElseZero(relu.passes(d, hn::LoadU(d, x + at)), hn::LoadU(d, dy + at));
  };
  std::int64_t i = 0;
  if (past_cache) {
    const std::int64_t head = std::min(n, elements_to_border(out, 64));
    for (; i < head; ++i) out[i] = relu.passes(x[i]) ? dy[i] : I{0};
    // Two inputs are read in bursts: a line of each in turn takes memory more than twice as long.
    const std::int64_t burst = x == dy ? n : std::max(4 * step, kBurstBytes / static_cast<std::int64_t>(sizeof(I)));
    while (i + 4 * step <= n) {
      const std::int64_t end = std::min(i + burst, n);
      if (x != dy) {
        prefetch(x + i, end - i);
        prefetch(dy + i, end - i);
      }
      for (; i + 4 * step <= end; i += 4 * step) {
        const auto a = one(i), b = one(i + step), c = one(i + 2 * step), e = one(i + 3 * step);
        hn::Stream(a, d, out + i);
        hn::Stream(b, d, out + i + step);
        hn::Stream(c, d, out + i + 2 * step);
        hn::Stream(e, d, out + i + 3 * step);
      }
    }
  }
  for (; i + step <= n; i += step) hn::StoreU(one(i), d, out + i);
  for (; i < n; ++i) out[i] = relu.passes(x[i]) ? dy[i] : I{0};
}

template <class I>
void run_relu(const ReluRun& r) {
  const Relu<I> relu{static_cast<I>(r.infinity), r.nan_passes};
  const auto* x = static_cast<const I*>(r.x);
  const auto* dy = static_cast<const I*>(r.dy == nullptr ? r.x : r.dy);
  auto* out = static_cast<I*>(r.out);
  if (r.x_stride == 1 && (r.dy == nullptr || r.dy_stride == 1) && r.out_stride == 1) {
    return run_packed(relu, x, dy, out, r.n, r.past_cache);
  }
  alignas(64) I x_packed[kPackedAtOnce], dy_packed[kPackedAtOnce], out_packed[kPackedAtOnce];
  for (std::int64_t i = 0; i < r.n; i += kPackedAtOnce) {
    const std::int64_t n = std::min(kPackedAtOnce, r.n - i);
    pack_run(x + i * r.x_stride, r.x_stride, n, x_packed);
    if (r.dy != nullptr) pack_run(dy + i * r.dy_stride, r.dy_stride, n, dy_packed);
    run_packed(relu, x_packed, r.dy != nullptr ? dy_packed : x_packed, out_packed, n, false);
    unpack_run(out_packed, n, out + i * r.out_stride, r.out_stride);
  }
}

template <class I>
void run_panel(const ReluPanel& p) {
  constexpr auto kRoom = static_cast<std::size_t>(PanelCut::kBytes) / sizeof(I);
  alignas(64) I x_turned[kRoom];
  alignas(64) I dy_turned[kRoom];
  ReluRun r = p.run;
  std::int64_t x_across = p.x_across, dy_across = p.dy_across;
  const auto turn = [&](I* turned, const void* next, const void*& from, std::int64_t& stride, std::int64_t& across) {
    turn_panel(static_cast<const I*>(from), stride, r.n, p.width, turned, r.n, static_cast<const I*>(next));
    from = turned;
    stride = 1;
    across = r.n;
  };
  if (p.turns_x) turn(x_turned, p.next_x, r.x, r.x_stride, x_across);
  if (p.turns_dy) turn(dy_turned, p.next_dy, r.dy, r.dy_stride, dy_across);
  // Runs that follow each other in all tensors are one.
  std::int64_t count = p.width;
  const bool dy_follows = r.dy == nullptr || dy_across == r.dy_stride * r.n;
  if (p.out_across == r.out_stride * r.n && x_across == r.x_stride * r.n && dy_follows) {
    r.n *= count;
    count = 1;
  }
  const auto* x = static_cast<const I*>(r.x);
  const auto* dy = static_cast<const I*>(r.dy);
  auto* out = static_cast<I*>(r.out);
  for (std::int64_t i = 0; i < count; ++i) {
    r.x = x + i * x_across;
    if (dy != nullptr) r.dy = dy + i * dy_across;
    r.out = out + i * p.out_across;
    run_relu<I>(r);
  }
}

template <class F>
void visit_element(std::size_t element, const F& f) {
  switch (element) {
    case 1:
      return f(std::int8_t{});
    case 2:
      return f(std::int16_t{});
    case 4:
      return f(std::int32_t{});
    default:
      return f(std::int64_t{});
  }
}

void ReluAny(const ReluRun& r) {
  visit_element(r.element, [&]<class I>(I) { run_relu<I>(r); });
}
void ReluAnyPanel(const ReluPanel& p) {
  visit_element(p.run.element, [&]<class I>(I) { run_panel<I>(p); });
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {

HWY_EXPORT(ReluAny);
HWY_EXPORT(ReluAnyPanel);

namespace {

// The bits of infinity; of integers, which have none, the largest.
std::uint64_t infinity_bits(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 0x7ff0000000000000u;
    case DType::f32:
      return 0x7f800000u;
    case DType::f16:
      return 0x7c00u;
    case DType::bf16:
      return 0x7f80u;
    default:
      return (std::uint64_t{1} << (8 * size_of(dtype) - 1)) - 1;
  }
}

// Part borders on whole cache lines of a packed output, whatever its type.
constexpr std::int64_t kBorder = 64;

template <std::size_t kViews>
class ReluKernel final : public Kernel {
 public:
  ReluKernel(DType dtype, bool nan_passes, std::uint64_t bytes, const Nest<kViews>& nest, const Settings& settings)
      : team_(settings), nest_(nest), bytes_(bytes) {
    run_.element = size_of(dtype);
    run_.infinity = infinity_bits(dtype);
    run_.nan_passes = nan_passes;
    // Short runs with gaps around them are not worth streaming.
    constexpr std::int64_t kLongRun = 4096;
    run_.past_cache =
        is_past_cache(bytes) && (nest.rank == 1 || nest.run() * static_cast<std::int64_t>(size_of(dtype)) >= kLongRun);
    run_.out_stride = nest.run_stride(0);
    run_.x_stride = nest.run_stride(1);
    run_.dy_stride = nest.run_stride(kViews - 1);
    choose_panels();
  }

  void run(const Bindings& bindings) const override {
    if (across_ >= 0) return run_panels(bindings);
    const std::int64_t count = nest_.count();
    team_.run_items(count / kBorder + 1, bytes_, [&](std::int64_t first, std::int64_t last, int) {
      ReluRun run = run_;
      for_each_run(nest_, first * kBorder, std::min(last * kBorder, count), [&](const auto& at, std::int64_t n) {
        set(bindings, at, n, run);
        BP_DISPATCH(ReluAny)(run);
      });
    });
  }

 private:
  using Offsets = std::array<std::int64_t, kViews>;

  void set(const Bindings& bindings, const Offsets& at, std::int64_t n, ReluRun& run) const {
    const auto moved = [&](auto* base, std::size_t view) {
      return base + at[view] * static_cast<std::int64_t>(run_.element);
    };
    run.out = moved(bindings.output<std::byte>(0), 0);
    run.x = moved(bindings.input<std::byte>(0), 1);
    run.dy = kViews == 3 ? moved(bindings.input<std::byte>(kViews - 2), kViews - 1) : nullptr;
    run.n = n;
  }

  // Whether an input's runs are scattered, but its elements follow each other along this axis.
  [[nodiscard]] bool turns(std::size_t view, int axis) const {
    return std::abs(nest_.run_stride(view)) > PanelCut::kNear && nest_.strides[view][axis] == 1;
  }
  void choose_panels() {
    if (nest_.count() == 0 || nest_.run() < PanelCut::kLeast) return;
    for (int i = 0; i < nest_.rank - 1; ++i) {
      if (nest_.sizes[i] >= PanelCut::kLeast && (turns(1, i) || turns(kViews - 1, i))) across_ = i;
    }
    if (across_ < 0) return;
    cut_ = PanelCut(nest_.sizes[across_], 1, nest_.run(), static_cast<std::int64_t>(run_.element));
    run_.past_cache = is_past_cache(bytes_);
  }

  void run_panels(const Bindings& bindings) const {
    const auto along = [&](std::size_t view) { return nest_.strides[view][across_]; };
    const ReluPanel common{.run = run_,
                           .width = 0,
                           .x_across = along(1),
                           .dy_across = along(kViews - 1),
                           .out_across = along(0),
                           .turns_x = turns(1, across_),
                           .turns_dy = kViews == 3 && turns(kViews - 1, across_),
                           .next_x = nullptr,
                           .next_dy = nullptr};
    const std::int64_t items = nest_.count() / nest_.sizes[across_] / nest_.run() * cut_.columns * cut_.rows;
    team_.run_items(items, bytes_, [&](std::int64_t first, std::int64_t last, int) {
      ReluPanel next = common;
      set_panel(bindings, first, next);
      for (std::int64_t item = first + 1; item <= last; ++item) {
        ReluPanel panel = next;
        if (item < last) {
          set_panel(bindings, item, next);
          panel.next_x = next.run.x;
          panel.next_dy = next.run.dy;
        }
        BP_DISPATCH(ReluAnyPanel)(panel);
      }
    });
  }
  void set_panel(const Bindings& bindings, std::int64_t item, ReluPanel& panel) const {
    const std::int64_t column = item % cut_.columns * cut_.width;
    item /= cut_.columns;
    const std::int64_t row = item % cut_.rows * cut_.height;
    item /= cut_.rows;
    Offsets at = nest_.start;
    const auto go_to = [&](int axis, std::int64_t position) {
      for (std::size_t view = 0; view < kViews; ++view) at[view] += position * nest_.strides[view][axis];
    };
    go_to(across_, column);
    go_to(nest_.rank - 1, row);
    for (int i = nest_.rank - 2; i >= 0; --i) {
      if (i == across_) continue;
      go_to(i, item % nest_.sizes[i]);
      item /= nest_.sizes[i];
    }
    set(bindings, at, std::min(cut_.height, nest_.run() - row), panel.run);
    panel.width = std::min(cut_.width, nest_.sizes[across_] - column);
  }

  Team team_;
  Nest<kViews> nest_;
  std::uint64_t bytes_;
  ReluRun run_{};
  int across_ = -1;  // the axis that an input is innermost along, where the output is not
  PanelCut cut_;
};

}  // namespace

std::unique_ptr<Kernel> make_relu(std::shared_ptr<const ReluPlan> plan, const Settings& settings) {
  return std::make_unique<ReluKernel<2>>(plan->x.dtype, true, stored_bytes({&plan->x, &plan->y}),
                                         make_nest<true>(plan->y, plan->x), settings);
}

std::unique_ptr<Kernel> make_relu_grad(std::shared_ptr<const ReluGradPlan> plan, const Settings& settings) {
  return std::make_unique<ReluKernel<3>>(plan->x.dtype, plan->nan_passes,
                                         stored_bytes({&plan->x, &plan->dy, &plan->dx}),
                                         make_nest<true>(plan->dx, plan->x, plan->dy), settings);
}

}  // namespace bp::cpu
#endif
