// SPDX-License-Identifier: Apache-2.0
// ReLU on vectors. A float is above zero exactly where its bits, as a signed number, are above zero and not above
// infinity's; so integers and floats of one width are one kernel, and no floating-point mode has a say.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/relu/cpu.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep

#include "backends/cpu/dispatch.h"
#include "backends/cpu/nest.h"
#include "backends/cpu/parallel.h"
#include "backends/cpu/runs-inl.h"
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
    for (; i + 4 * step <= n; i += 4 * step) {
      const auto a = one(i), b = one(i + step), c = one(i + 2 * step), e = one(i + 3 * step);
      hn::Stream(a, d, out + i);
      hn::Stream(b, d, out + i + step);
      hn::Stream(c, d, out + i + 2 * step);
      hn::Stream(e, d, out + i + 3 * step);
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
  if (r.x_stride == 1 && r.dy_stride == 1 && r.out_stride == 1) {
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

void ReluAny(const ReluRun& r) {
  switch (r.element) {
    case 1:
      return run_relu<std::int8_t>(r);
    case 2:
      return run_relu<std::int16_t>(r);
    case 4:
      return run_relu<std::int32_t>(r);
    default:
      return run_relu<std::int64_t>(r);
  }
}

}  // namespace bp::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bp::cpu {

HWY_EXPORT(ReluAny);

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
  }

  void run(const Bindings& bindings) const override {
    const std::int64_t count = nest_.count();
    team_.run_items(count / kBorder + 1, bytes_, [&](std::int64_t first, std::int64_t last, int) {
      ReluRun run = run_;
      for_each_run(nest_, first * kBorder, std::min(last * kBorder, count), [&](const auto& at, std::int64_t n) {
        const auto moved = [&](auto* base, std::size_t view) {
          return base + at[view] * static_cast<std::int64_t>(run_.element);
        };
        run.out = moved(bindings.output<std::byte>(0), 0);
        run.x = moved(bindings.input<std::byte>(0), 1);
        run.dy = kViews == 3 ? moved(bindings.input<std::byte>(kViews - 2), kViews - 1) : nullptr;
        run.n = n;
        BP_DISPATCH(ReluAny)(run);
      });
    });
  }

 private:
  Team team_;
  Nest<kViews> nest_;
  std::uint64_t bytes_;
  ReluRun run_{};
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
