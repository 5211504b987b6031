// SPDX-License-Identifier: Apache-2.0
// Resample and its gradient: the contract.
//
// Per axis a map from each output o to taps (i, w) of the source, by one of three ways:
//
//     scale s, offsets ip, op   c = (o - op) / s - ip in f64, each step rounded, clamped to [-1, H]
//     a named convention        c is the exact rational number; weights are rounded once
//     an explicit table         for each o its first i, its count of taps and their weights
//
//     nearest   one tap of weight 1 at ceil(c), floor(c) or floor(c + 0.5), clamped to [0, H - 1]
//     linear    i0 = floor(c), t = c - i0; taps clamp(i0) and clamp(i0 + 1) of weights 1 - t and t, rounded to the
//               accumulator; one tap of weight 1 where both are the same element; a weight of 0 is no tap
//
// Forward, axes from last to first: v = sum of w * x, taps ascending, from +0; an axis that is left alone and every
// nearest axis is pure movement. The gradient, axes from first to last, is its exact adjoint: t[i] = sum over o
// ascending of w(o, i) * g[o], from +0; more than 128 terms are taken in blocks of 128, each summed from +0, the block
// sums added in order. Sums and intermediates are f32 (f64 for f64), rounded once at the end; i8 and u8 saturate.
#pragma once

#include "core/operator.h"
#include "ops/resample/tables.h"

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace bp {

inline constexpr std::int64_t kSumBlock = 128;

struct ResamplePlan {
  Tensor x, y;
  std::array<AxisTable, kMaxRank> axes{};  // rows: outputs
  std::string map_text{};
};

struct ResampleGradPlan {
  Tensor dy, dx;
  std::array<AxisTable, kMaxRank> axes{};  // rows: inputs
  std::string map_text{};
};

struct Resample {
  using Desc = bp_resample_desc;
  using Plan = ResamplePlan;
  using Types = FloatsAndBytes;
  static constexpr std::int32_t kKind = BP_RESAMPLE;
  static constexpr std::string_view kName = "resample";
  static Plan plan(const Desc& desc);
  static Description describe(const Plan& plan);
  static std::span<const Implementation<Plan>> implementations(std::int32_t device_kind);
};

struct ResampleGrad {
  using Desc = bp_resample_grad_desc;
  using Plan = ResampleGradPlan;
  using Types = Floats;
  static constexpr std::int32_t kKind = BP_RESAMPLE_GRAD;
  static constexpr std::string_view kName = "resample_grad";
  static Plan plan(const Desc& desc);
  static Description describe(const Plan& plan);
  static std::span<const Implementation<Plan>> implementations(std::int32_t device_kind);
};

namespace reference {
void resample(const ResamplePlan& plan, const Bindings& bindings);
void resample_grad(const ResampleGradPlan& plan, const Bindings& bindings);
}  // namespace reference

namespace cpu {
std::string refuse_resample(const ResamplePlan& plan);
std::unique_ptr<Kernel> make_resample(std::shared_ptr<const ResamplePlan> plan, const Settings& settings);
std::string refuse_resample_grad(const ResampleGradPlan& plan);
std::unique_ptr<Kernel> make_resample_grad(std::shared_ptr<const ResampleGradPlan> plan, const Settings& settings);

// The same for a part of something larger, which may be past the cache where the part is not.
std::unique_ptr<Kernel> make_resample_rows(std::shared_ptr<const ResamplePlan> plan, const Settings& settings,
                                           bool past_cache);
std::unique_ptr<Kernel> make_resample_grad_rows(std::shared_ptr<const ResampleGradPlan> plan, const Settings& settings,
                                                bool past_cache);

std::string refuse_resample_packed(const ResamplePlan& plan);
std::unique_ptr<Kernel> make_resample_packed(std::shared_ptr<const ResamplePlan> plan, const Settings& settings);
std::string refuse_resample_grad_packed(const ResampleGradPlan& plan);
std::unique_ptr<Kernel> make_resample_grad_packed(std::shared_ptr<const ResampleGradPlan> plan,
                                                  const Settings& settings);
}  // namespace cpu

namespace cuda {
// Best first, the last takes everything; none in a build without CUDA.
std::span<const Implementation<ResamplePlan>> resample_implementations();
std::span<const Implementation<ResampleGradPlan>> resample_grad_implementations();
}  // namespace cuda

}  // namespace bp
