// SPDX-License-Identifier: Apache-2.0
// Slice and its gradient: the contract.
//
// Per axis a window [offset, offset + size) of x and a signed stride. A positive stride starts at the window's first
// element, a negative one at its last:
//
//     start = stride > 0 ? offset : offset + size - 1
//     y[c]  = x[start + stride * c]
//     dx[start + stride * c] = dy[c], zero bits elsewhere
//
// 1 <= output size <= 1 + (size - 1) / |stride|. On an axis of size 0 the window and the output are empty. Pure
// movement: every type, every bit pattern, rank 1 to 8. Offsets and sizes are positions in x, so they are bounded by
// its axis; the stride's magnitude is below 2^31.
#pragma once

#include "core/operator.h"

#include <cstdint>
#include <span>

namespace bp {

struct SliceAxis {
  std::int64_t offset = 0;
  std::int64_t size = 0;
  std::int64_t stride = 1;

  [[nodiscard]] constexpr std::int64_t start() const { return stride > 0 ? offset : offset + size - 1; }
  // The position in x of output index c.
  [[nodiscard]] constexpr std::int64_t position(std::int64_t c) const { return start() + stride * c; }
};

// Both directions: `whole` is x or dx, `part` is y or dy.
struct SlicePlan {
  Tensor whole, part;
  std::array<SliceAxis, kMaxRank> axes{};
};
struct SliceGradPlan : SlicePlan {};

struct Slice {
  using Desc = bp_slice_desc;
  using Plan = SlicePlan;
  using Types = AllTypes;
  static constexpr std::int32_t kKind = BP_SLICE;
  static constexpr std::string_view kName = "slice";
  static Plan plan(const Desc& desc);
  static Description describe(const Plan& plan);
  static std::span<const Implementation<Plan>> implementations(std::int32_t device_kind);
};

struct SliceGrad {
  using Desc = bp_slice_grad_desc;
  using Plan = SliceGradPlan;
  using Types = AllTypes;
  static constexpr std::int32_t kKind = BP_SLICE_GRAD;
  static constexpr std::string_view kName = "slice_grad";
  static Plan plan(const Desc& desc);
  static Description describe(const Plan& plan);
  static std::span<const Implementation<Plan>> implementations(std::int32_t device_kind);
};

namespace reference {
void slice(const SlicePlan& plan, const Bindings& bindings);
void slice_grad(const SliceGradPlan& plan, const Bindings& bindings);
}  // namespace reference

namespace cpu {
std::unique_ptr<Kernel> make_slice(std::shared_ptr<const SlicePlan> plan, const Settings& settings);
std::unique_ptr<Kernel> make_slice_grad(std::shared_ptr<const SliceGradPlan> plan, const Settings& settings);
}  // namespace cpu

namespace cuda {
// Best first, the last takes everything; none in a build without CUDA.
std::span<const Implementation<SlicePlan>> slice_implementations();
std::span<const Implementation<SliceGradPlan>> slice_grad_implementations();
}  // namespace cuda

}  // namespace bp
