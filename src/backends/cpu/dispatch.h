// SPDX-License-Identifier: Apache-2.0
// From a function compiled for every instruction set to the one for this processor. BP_DISPATCH stands where Highway's
// own HWY_DYNAMIC_DISPATCH would: that one asks a variable that all users of Highway in the process share, this one
// asks BACKPASS_MAX_ISA.
#pragma once

#include "core/cpu_features.h"

#include <hwy/highway.h>

#include <cstddef>

namespace bp::cpu {

// The place in Highway's tables; inline, since it depends on the sets that the including file is compiled for.
inline std::size_t dispatch_index() {
  static const std::size_t index = [] {
    if constexpr ((HWY_TARGETS & (HWY_TARGETS - 1)) == 0) return std::size_t{0};
    hwy::ChosenTarget chosen;
    chosen.Update(instruction_set_bits());
    return chosen.GetIndex();
  }();
  return index;
}

}  // namespace bp::cpu

// A call: BP_DISPATCH(function)(arguments).
#define BP_DISPATCH(function) (*HWY_DISPATCH_TABLE(function)[::bp::cpu::dispatch_index()])
