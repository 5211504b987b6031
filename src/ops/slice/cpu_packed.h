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

// Whether a copy has as many elements as are stored. (Views of empty or repeated memory may have absurd sizes.)
bool is_copied_as_it_is(const Tensor& t);
inline constexpr const char* kNotCopiedAsItIs = "a tensor is empty, or its elements are repeated";

// Copies the inputs among `copies`, runs `kernel`, which knows their packed forms, and copies the outputs back: past
// the cache, if they are a part of something so large.
std::unique_ptr<Kernel> make_packed(std::unique_ptr<Kernel> kernel, std::span<const PackedCopy> copies,
                                    const Settings& settings, bool past_cache = false);

// All of `from`, as a slice of it.
std::unique_ptr<Kernel> make_copy(const Tensor& from, const Tensor& to, const Settings& settings, bool past_cache);

}  // namespace bp::cpu
