// SPDX-License-Identifier: Apache-2.0
// What the CUDA implementations of max pooling share on the host.
#pragma once

#include "ops/max_pool/max_pool.h"

#include <cuda_runtime_api.h>

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

std::string refuse_tiles(const MaxPoolPlan& plan);
std::string refuse_tiles(const MaxPoolGradPlan& plan);
std::unique_ptr<Kernel> make_tiles(std::shared_ptr<const MaxPoolPlan> plan, const Settings& settings);
std::unique_ptr<Kernel> make_tiles(std::shared_ptr<const MaxPoolGradPlan> plan, const Settings& settings);

}  // namespace bp::cuda
