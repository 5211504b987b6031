// SPDX-License-Identifier: Apache-2.0
// A kernel on packed copies of some of its tensors: those whose strides it cannot read or write as fast as slice, which
// is pure movement, can copy them.
#pragma once

#include "core/operator.h"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace bp::cpu {

// A tensor of a plan where the caller has it, and its copy, packed in some order of the axes.
struct PackedCopy {
  bool is_output = false;
  std::size_t slot = 0;  // of the kernel's inputs or outputs
  Tensor there{};
  Tensor packed{};
};

// `t` without gaps, with its axes in this order, the outermost first.
Tensor packed_in_order(const Tensor& t, std::span<const int> order);

// Copies the inputs among `copies`, runs `kernel`, which knows their packed forms, and copies the outputs back.
std::unique_ptr<Kernel> make_packed(std::unique_ptr<Kernel> kernel, std::span<const PackedCopy> copies,
                                    const Settings& settings);

}  // namespace bp::cpu
