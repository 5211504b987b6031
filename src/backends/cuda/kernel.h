// SPDX-License-Identifier: Apache-2.0
// A CUDA implementation in the library's list: a body, made from the plan, that launches kernels on a stream; and
// around it what is the same for all. A body has
//
//     Body(const Plan&)                                             on the operator's device; tables are uploaded here
//     cudaError_t launch(const Bindings&, cudaStream_t) const       only puts work on the stream
//     std::size_t workspace_bytes() const                           where it needs a workspace
//     void check(const void* workspace, cudaStream_t) const         where a run may leave something to report
#pragma once

#include "backends/cuda/runtime.h"
#include "core/operator.h"

#include <cstddef>
#include <memory>

namespace bp::cuda {

template <class Op, class Body>
class DeviceKernel final : public Kernel {
 public:
  DeviceKernel(const typename Op::Plan& plan, std::int32_t ordinal) : ordinal_(ordinal), body_(plan) {}

  [[nodiscard]] std::size_t workspace_bytes() const override {
    if constexpr (requires { body_.workspace_bytes(); }) {
      return body_.workspace_bytes();
    } else {
      return 0;
    }
  }

  void run(const Bindings& bindings) const override {
    const Range range(Op::kName);
    const SelectedDevice device(Op::kName, ordinal_);
    require(Op::kName, "launch", body_.launch(bindings, static_cast<cudaStream_t>(bindings.stream)));
  }

  void check(void* workspace, void* stream) const override {
    if constexpr (requires { body_.check(workspace, cudaStream_t{}); }) {
      const SelectedDevice device(Op::kName, ordinal_);
      body_.check(workspace, static_cast<cudaStream_t>(stream));
    }
  }

 private:
  std::int32_t ordinal_;
  Body body_;
};

template <class Op, class Body>
std::unique_ptr<Kernel> make(std::shared_ptr<const typename Op::Plan> plan, const Settings& settings) {
  const SelectedDevice device(Op::kName, settings.ordinal);
  require_no_capture(Op::kName);
  return std::make_unique<DeviceKernel<Op, Body>>(*plan, settings.ordinal);
}

}  // namespace bp::cuda
