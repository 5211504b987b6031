// SPDX-License-Identifier: Apache-2.0
// What the CUDA implementations of resample share on the host.
#pragma once

#include "ops/resample/resample.h"

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

namespace bp::cuda {

// One thread for each element of dx: takes everything.
class ResampleGradGather {
 public:
  explicit ResampleGradGather(const ResampleGradPlan& plan);
  ~ResampleGradGather();
  cudaError_t launch(const Bindings& bindings, cudaStream_t stream) const;

 private:
  struct Counted;
  std::unique_ptr<const Counted> counted_;
};

std::string refuse_doubled(const ResampleGradPlan& plan);
std::unique_ptr<Kernel> make_doubled(std::shared_ptr<const ResampleGradPlan> plan, const Settings& settings);
std::string refuse_near(const ResampleGradPlan& plan);
std::unique_ptr<Kernel> make_near(std::shared_ptr<const ResampleGradPlan> plan, const Settings& settings);
std::string refuse_separable(const ResampleGradPlan& plan);
std::unique_ptr<Kernel> make_separable(std::shared_ptr<const ResampleGradPlan> plan, const Settings& settings);

}  // namespace bp::cuda
