// SPDX-License-Identifier: Apache-2.0
// What the CUDA implementations of max pooling share on the host.
#pragma once

#include "ops/max_pool/cuda_tiles.h"
#include "ops/max_pool/max_pool.h"

#include <cuda_runtime_api.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

namespace bp::cuda {

// Says, where asked, which stored winners a run found wrong.
class WrongWinnersReport {
 public:
  explicit WrongWinnersReport(const MaxPoolGradPlan& plan)
      : op_(MaxPoolGrad::kName), tensor_("winners"), geometry_(plan.geometry), rank_(plan.rank) {}
  explicit WrongWinnersReport(const ConvertWinnersPlan& plan)
      : op_(ConvertWinners::kName), tensor_("from"), geometry_(plan.geometry), rank_(plan.rank) {}

  // Refuses with one sentence if there are any.
  void read(const void* workspace, cudaStream_t stream) const;

 private:
  std::string_view op_, tensor_;
  PoolGeometry geometry_;
  int rank_;
};

// The search for the winners of a gradient's x, any windows in any strides, into a tensor of compact ones.
class WinnerSearch {
 public:
  WinnerSearch() = default;
  WinnerSearch(const MaxPoolGradPlan& plan, const Tensor& winners);

  cudaError_t launch(const void* x, void* winners, cudaStream_t stream) const;

 private:
  DType dtype_ = DType::f32;
  bool fits_32_bits_ = false;
  PoolSearch<std::int32_t> of_32_bits_{};
  PoolSearch<std::int64_t> of_64_bits_{};
};

// An axis that is not there.
inline bool is_trivial(const PoolAxis& axis) {
  return axis.input == 1 && axis.output == 1 && axis.window == 1 && axis.start_padding == 0;
}

template <class Data>
PoolView<Data> view(Data* data, const Tensor& t) {
  const Dims& s = t.strides;
  return {data, s[0], s[1], s[2], s[3], s[4]};
}

// Why `scatter` is not for them; empty: `pool` is cut. The tensors are those with the geometry's axes.
struct ScatterPool;
std::string plan_scatter(const PoolGeometry& geometry, DType dtype, std::initializer_list<const Tensor*> tensors,
                         ScatterPool& pool);

std::string refuse_scatter(const MaxPoolGradPlan& plan);
std::unique_ptr<Kernel> make_scatter(std::shared_ptr<const MaxPoolGradPlan> plan, const Settings& settings);

std::string refuse_lines(const MaxPoolGradPlan& plan);
std::unique_ptr<Kernel> make_lines(std::shared_ptr<const MaxPoolGradPlan> plan, const Settings& settings);

std::string refuse_tiles(const MaxPoolPlan& plan);
std::string refuse_tiles(const MaxPoolGradPlan& plan);
std::unique_ptr<Kernel> make_tiles(std::shared_ptr<const MaxPoolPlan> plan, const Settings& settings);
std::unique_ptr<Kernel> make_tiles(std::shared_ptr<const MaxPoolGradPlan> plan, const Settings& settings);

}  // namespace bp::cuda
