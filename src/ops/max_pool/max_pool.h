// SPDX-License-Identifier: Apache-2.0
// Max pooling, its gradient, and the forms of its winners: the contract.
//
// Per spatial axis: window W, stride S, paddings P and Q, dilation D; extent E = (W - 1) * D + 1 <= H + P + Q. Output
// o, tap k reads position o*S - P + k*D; taps outside [0, H) do not exist, so padding never wins.
//
//     winner(o) = the tap of greatest value; among equals (+0 and -0 are) the lowest row-major index;
//                 NaN is greater than everything, and the first NaN wins
//     y[o]      = x at winner(o), all its bits; the type's lowest value where no tap exists
//     dx[p]     = sum of dy[o] over the windows with winner(o) = p, from +0, in ascending row-major o
//
// Sums are made in f32 (f64 for f64) and rounded once. The winners come from x again, or from storage:
//
//     compact   the tap's row-major number in its window: u8, u16 or u32 by the count of taps
//     flat      the row-major logical index into all of x: u32 u64 i32 i64
//     plane     the row-major index into the spatial axes, as PyTorch has it; converters only
//
// All ones (-1) means no winner. A stored winner that is no existing tap of its window contributes nothing, and is
// reported.
#pragma once

#include "core/operator.h"
#include "ops/max_pool/winners.h"

#include <cstdint>
#include <span>

namespace bp {

struct Winners {
  WinnersKind kind = WinnersKind::none;
  Tensor tensor{};
};

// The type that numbers the taps of a window.
DType compact_dtype(const PoolGeometry& geometry);

// The tensors of a plan are {N, C, D, H, W}; `rank` is what the caller gave.
struct MaxPoolPlan {
  int rank = 0;
  PoolGeometry geometry{};
  Tensor x{}, y{};
  Winners winners{};

  // What is read and written.
  [[nodiscard]] std::uint64_t bytes() const {
    const std::uint64_t values = stored_bytes({&x, &y});
    return winners.kind == WinnersKind::none ? values : values + stored_bytes({&winners.tensor});
  }
};

struct MaxPoolGradPlan {
  int rank = 0;
  PoolGeometry geometry{};
  Tensor x{};         // read when winners.kind is none
  Winners winners{};  // read otherwise
  Tensor dy{}, dx{};

  [[nodiscard]] bool recomputes() const { return winners.kind == WinnersKind::none; }
  [[nodiscard]] const Tensor& choice() const { return recomputes() ? x : winners.tensor; }
  [[nodiscard]] std::uint64_t bytes() const { return stored_bytes({&choice(), &dy, &dx}); }
};

struct ConvertWinnersPlan {
  int rank = 0;
  PoolGeometry geometry{};
  Winners from{}, to{};
};

struct MaxPool {
  using Desc = bp_max_pool_desc;
  using Plan = MaxPoolPlan;
  using Types = AllTypes;
  static constexpr std::int32_t kKind = BP_MAX_POOL;
  static constexpr std::string_view kName = "max_pool";
  static Plan plan(const Desc& desc);
  static Description describe(const Plan& plan);
  static std::span<const Implementation<Plan>> implementations(std::int32_t device_kind);
};

struct MaxPoolGrad {
  using Desc = bp_max_pool_grad_desc;
  using Plan = MaxPoolGradPlan;
  using Types = Floats;
  static constexpr std::int32_t kKind = BP_MAX_POOL_GRAD;
  static constexpr std::string_view kName = "max_pool_grad";
  static Plan plan(const Desc& desc);
  static Description describe(const Plan& plan);
  static std::span<const Implementation<Plan>> implementations(std::int32_t device_kind);
};

struct ConvertWinners {
  using Desc = bp_convert_winners_desc;
  using Plan = ConvertWinnersPlan;
  using Types = IndexTypes;
  static constexpr std::int32_t kKind = BP_CONVERT_WINNERS;
  static constexpr std::string_view kName = "convert_winners";
  static Plan plan(const Desc& desc);
  static Description describe(const Plan& plan);
  static std::span<const Implementation<Plan>> implementations(std::int32_t device_kind);
};

namespace reference {
void max_pool(const MaxPoolPlan& plan, const Bindings& bindings);
void max_pool_grad(const MaxPoolGradPlan& plan, const Bindings& bindings);
std::size_t max_pool_grad_workspace(const MaxPoolGradPlan& plan);
void convert_winners(const ConvertWinnersPlan& plan, const Bindings& bindings);
// Refuses stored winners some of which are no tap of their window.
void report_wrong_winners(const MaxPoolGradPlan& plan, const Bindings& bindings);
}  // namespace reference

namespace cpu {
std::string refuse_pool(const PoolGeometry& geometry);
std::string refuse_tiles(const MaxPoolPlan& plan);
std::string refuse_tiles(const MaxPoolGradPlan& plan);
std::string refuse_scatter(const MaxPoolGradPlan& plan);
std::string refuse_turned(const MaxPoolGradPlan& plan);
std::string refuse_packed(const MaxPoolPlan& plan);
std::string refuse_packed(const MaxPoolGradPlan& plan);
std::unique_ptr<Kernel> make_max_pool_tiles(std::shared_ptr<const MaxPoolPlan> plan, const Settings& settings);
std::unique_ptr<Kernel> make_max_pool_grad_tiles(std::shared_ptr<const MaxPoolGradPlan> plan, const Settings& settings);
std::unique_ptr<Kernel> make_max_pool_grad_scatter(std::shared_ptr<const MaxPoolGradPlan> plan,
                                                   const Settings& settings);
std::unique_ptr<Kernel> make_max_pool_grad_turned(std::shared_ptr<const MaxPoolGradPlan> plan,
                                                  const Settings& settings);
std::unique_ptr<Kernel> make_max_pool_packed(std::shared_ptr<const MaxPoolPlan> plan, const Settings& settings);
std::unique_ptr<Kernel> make_max_pool_grad_packed(std::shared_ptr<const MaxPoolGradPlan> plan,
                                                  const Settings& settings);
std::unique_ptr<Kernel> make_max_pool(std::shared_ptr<const MaxPoolPlan> plan, const Settings& settings);
std::unique_ptr<Kernel> make_max_pool_grad(std::shared_ptr<const MaxPoolGradPlan> plan, const Settings& settings);
}  // namespace cpu

namespace cuda {
// Best first, the last takes everything; none in a build without CUDA.
std::span<const Implementation<MaxPoolPlan>> max_pool_implementations();
std::span<const Implementation<MaxPoolGradPlan>> max_pool_grad_implementations();
std::span<const Implementation<ConvertWinnersPlan>> convert_winners_implementations();
}  // namespace cuda

}  // namespace bp
