// SPDX-License-Identifier: Apache-2.0
// ReLU on CUDA: the implementation lists and what each prepares.
#include "ops/relu/cuda.h"

#include "backends/cuda/kernel.h"
#include "ops/relu/relu.h"

namespace bp::cuda {

namespace {

// Fused axes make one run of views that lie in one piece in the same order.
template <std::size_t kViews>
std::string refuse_pieces(const Nest<kViews>& nest) {
  if (nest.rank == 1 && nest.runs_are_contiguous()) return {};
  return "the tensors do not lie in one piece, in one order";
}

bool begins_vector(const void* data) { return is_aligned(data, kVectorBytes); }

// The nests walk upwards, so that a piece that is walked downwards is one, too; `start` leads to its lowest address.
Nest<2> views_of(const ReluPlan& plan) { return make_nest<true>(plan.y, plan.x); }
Nest<3> views_of(const ReluGradPlan& plan) { return make_nest<true>(plan.dx, plan.x, plan.dy); }

template <class T>
T* moved(T* data, std::int64_t elements, DType dtype) {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  return static_cast<Byte*>(data) + elements * static_cast<std::int64_t>(size_of(dtype));
}

// ---- relu ----------------------------------------------------------------------------------------------

std::string refuse_packed(const ReluPlan& plan) { return refuse_pieces(views_of(plan)); }

template <bool kPacked>
class ReluBody {
 public:
  explicit ReluBody(const ReluPlan& plan)
      : dtype_(plan.x.dtype), start_(views_of(plan).start), views_(views_of(plan)) {}

  cudaError_t launch(const Bindings& bindings, cudaStream_t stream) const {
    void* y = moved(bindings.outputs[0], start_[0], dtype_);
    const void* x = moved(bindings.inputs[0], start_[1], dtype_);
    // A piece that does not begin where vectors do is walked element by element.
    if (kPacked && begins_vector(x) && begins_vector(y)) return relu_packed(dtype_, x, y, views_.count, stream);
    return relu_strided(dtype_, x, y, views_, stream);
  }

 private:
  DType dtype_;
  std::array<std::int64_t, 2> start_;
  Strided<2> views_;
};

// ---- relu_grad -----------------------------------------------------------------------------------------

std::string refuse_packed(const ReluGradPlan& plan) { return refuse_pieces(views_of(plan)); }

template <bool kPacked>
class ReluGradBody {
 public:
  explicit ReluGradBody(const ReluGradPlan& plan)
      : dtype_(plan.x.dtype), nan_passes_(plan.nan_passes), start_(views_of(plan).start), views_(views_of(plan)) {}

  cudaError_t launch(const Bindings& bindings, cudaStream_t stream) const {
    void* dx = moved(bindings.outputs[0], start_[0], dtype_);
    const void* x = moved(bindings.inputs[0], start_[1], dtype_);
    const void* dy = moved(bindings.inputs[1], start_[2], dtype_);
    if (kPacked && begins_vector(x) && begins_vector(dy) && begins_vector(dx)) {
      return relu_grad_packed(dtype_, x, dy, dx, views_.count, nan_passes_, stream);
    }
    return relu_grad_strided(dtype_, x, dy, dx, views_, nan_passes_, stream);
  }

 private:
  DType dtype_;
  bool nan_passes_;
  std::array<std::int64_t, 3> start_;
  Strided<3> views_;
};

constexpr Implementation<ReluPlan> kRelu[] = {
    {"packed", refuse_packed, make<Relu, ReluBody<true>>},
    {"strided", accept_all<ReluPlan>, make<Relu, ReluBody<false>>},
};
constexpr Implementation<ReluGradPlan> kReluGrad[] = {
    {"packed", refuse_packed, make<ReluGrad, ReluGradBody<true>>},
    {"strided", accept_all<ReluGradPlan>, make<ReluGrad, ReluGradBody<false>>},
};

}  // namespace

std::span<const Implementation<ReluPlan>> relu_implementations() { return kRelu; }
std::span<const Implementation<ReluGradPlan>> relu_grad_implementations() { return kReluGrad; }

}  // namespace bp::cuda
