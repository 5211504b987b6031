// SPDX-License-Identifier: Apache-2.0
// The operators of the library. A new one is a folder beside these, a desc in backpass.h and a line here.
#pragma once

#include "ops/max_pool/max_pool.h"
#include "ops/relu/relu.h"
#include "ops/resample/resample.h"
#include "ops/slice/slice.h"

namespace bp {

using AllOperators =
    TypeList<Relu, ReluGrad, MaxPool, MaxPoolGrad, Resample, ResampleGrad, Slice, SliceGrad, ConvertWinners>;

template <class... Ops>
constexpr std::size_t count_of(TypeList<Ops...>) {
  return sizeof...(Ops);
}

// Calls f<Op>() for the operator of this kind; false when there is none.
template <class... Ops, class F>
bool visit_operator(TypeList<Ops...>, std::int32_t kind, F&& f) {
  return ((Ops::kKind == kind ? (f.template operator()<Ops>(), true) : false) || ...);
}

}  // namespace bp
