// SPDX-License-Identifier: Apache-2.0
// Short words for the tests of backpass.hpp: its names, an example, and what a call throws.
#pragma once

#include <gtest/gtest.h>
#include <backpass/backpass.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

namespace cpp_api {

using backpass::AxisTable;
using backpass::Convention;
using backpass::ConvertWinners;
using backpass::DType;
using backpass::Error;
using backpass::MaxPool;
using backpass::MaxPoolGrad;
using backpass::Mode;
using backpass::Nan;
using backpass::Operator;
using backpass::PoolOptions;
using backpass::Relu;
using backpass::ReluGrad;
using backpass::Resample;
using backpass::ResampleGrad;
using backpass::ResampleMap;
using backpass::Rounding;
using backpass::Slice;
using backpass::SliceGrad;
using backpass::SliceWindow;
using backpass::Status;
using backpass::Tensor;
using backpass::TensorDesc;
using backpass::Winners;

using Floats = std::vector<float>;
using Ints = std::vector<std::int32_t>;
using Dims = backpass::Dims;

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// ---- The document's pooling example, on which most tests stand -----------------------------------------

inline const Floats kX{1, 2, 3, 2, 4, 2, 5, 6, 7}, kDy{1, 2, 4, 5}, kY{4, 4, 6, 7}, kDx{0, 0, 0, 0, 3, 0, 0, 4, 5};
inline const Dims kXSizes{1, 1, 3, 3}, kYSizes{1, 1, 2, 2};
inline const PoolOptions kPool{.window = {2, 2}, .strides = {1, 1}};
inline const TensorDesc kXDesc{.sizes = kXSizes}, kYDesc{.sizes = kYSizes};

inline MaxPoolGrad pool_grad() { return {.x = kXDesc, .dy = kYDesc, .dx = kXDesc, .window = kPool.as_window()}; }

// An output that shows what was not written.
template <class T = float>
std::vector<T> unwritten(std::size_t count) {
  return std::vector<T>(count, static_cast<T>(-77));
}

// A workspace of the size that the operator asks for.
inline std::vector<std::max_align_t> workspace_for(const Operator& op) {
  return std::vector<std::max_align_t>(op.workspace_size() / sizeof(std::max_align_t) + 1);
}

template <class Description>
void run(const Description& description, std::initializer_list<const void*> inputs,
         std::initializer_list<void*> outputs) {
  const Operator op(description);
  op.run(inputs, outputs, workspace_for(op).data());
}

struct Thrown {
  Status code = Status::ok;
  std::string text;

  bool operator==(const Thrown&) const = default;
  friend void PrintTo(const Thrown& t, std::ostream* out) { *out << static_cast<int>(t.code) << ": " << t.text; }
};

template <class Call>
Thrown thrown(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {Status::ok, "nothing was thrown"};
}

template <class Description>
Thrown refusal(const Description& description) {
  return thrown([&] { Operator{description}; });
}

inline Thrown invalid(const std::string& text) { return {Status::invalid_argument, text}; }

}  // namespace cpp_api
