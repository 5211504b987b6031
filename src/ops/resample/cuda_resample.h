// SPDX-License-Identifier: Apache-2.0
// What the CUDA implementations of resample share on the host.
#pragma once

#include "ops/resample/resample.h"

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

namespace bp::cuda {

// One thread for each element that is written: takes everything.
class ResampleGatherer {
 public:
  explicit ResampleGatherer(const ResamplePlan& plan);
  explicit ResampleGatherer(const ResampleGradPlan& plan);
  ~ResampleGatherer();
  cudaError_t launch(const Bindings& bindings, cudaStream_t stream) const;

 private:
  template <class Plan>
  void gather(const Plan& plan);

  struct Counted;
  std::unique_ptr<const Counted> counted_;
};

std::string refuse_doubled(const ResampleGradPlan& plan);
std::unique_ptr<Kernel> make_doubled(std::shared_ptr<const ResampleGradPlan> plan, const Settings& settings);
std::string refuse_near(const ResampleGradPlan& plan);
std::unique_ptr<Kernel> make_near(std::shared_ptr<const ResampleGradPlan> plan, const Settings& settings);
std::string refuse_near_forward(const ResamplePlan& plan);
std::unique_ptr<Kernel> make_near_forward(std::shared_ptr<const ResamplePlan> plan, const Settings& settings);
std::string refuse_separable(const ResampleGradPlan& plan);
std::unique_ptr<Kernel> make_separable(std::shared_ptr<const ResampleGradPlan> plan, const Settings& settings);

}  // namespace bp::cuda
