// SPDX-License-Identifier: Apache-2.0
// Short words for tests: a problem is a line of the command line, tensors are vectors of their logical elements.
#pragma once

#include "buffer.h"
#include "problem.h"

#include <backpass/backpass.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace support {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

// A 16-bit type's elements travel as their bits.
template <class T>
constexpr std::int32_t dtype_of() {
  if constexpr (std::is_same_v<T, double>) return BP_F64;
  if constexpr (std::is_same_v<T, float>) return BP_F32;
  if constexpr (std::is_same_v<T, std::int64_t>) return BP_I64;
  if constexpr (std::is_same_v<T, std::int32_t>) return BP_I32;
  if constexpr (std::is_same_v<T, std::int16_t>) return BP_I16;
  if constexpr (std::is_same_v<T, std::int8_t>) return BP_I8;
  if constexpr (std::is_same_v<T, std::uint64_t>) return BP_U64;
  if constexpr (std::is_same_v<T, std::uint32_t>) return BP_U32;
  if constexpr (std::is_same_v<T, std::uint16_t>) return BP_U16;
  if constexpr (std::is_same_v<T, std::uint8_t>) return BP_U8;
}

template <class T>
tools::Dense dense(std::int32_t dtype, const tools::Ints& sizes, const std::vector<T>& values) {
  tools::Dense result{dtype, sizes, {}};
  for (const T& v : values) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &v, sizeof v);
    result.bits.push_back(bits);
  }
  return result;
}

template <class T>
std::vector<T> values(const tools::Dense& d) {
  std::vector<T> result;
  for (const std::uint64_t bits : d.bits) {
    T v;
    std::memcpy(&v, &bits, sizeof v);
    result.push_back(v);
  }
  return result;
}

struct RunResult {
  bp_status status = BP_OK;
  std::string error;
  std::vector<tools::Dense> outputs;  // in slot order
};

// Creates and runs a problem on the given inputs (slot order, absent ones empty), all in guarded memory.
inline RunResult run(const tools::Problem& problem, std::int32_t dtype, const std::vector<tools::Dense>& inputs,
                     const tools::CreateOptions& options = {}) {
  const tools::Tensors specs = tools::tensors(problem, dtype);
  const tools::CreateResult created = tools::try_create(problem, specs, options);
  if (!created.op) return {created.status, created.error, {}};
  std::vector<std::unique_ptr<tools::Buffer>> memory;
  std::vector<const void*> in;
  std::vector<void*> out;
  for (std::size_t i = 0; i < specs.inputs.size(); ++i) {
    memory.push_back(std::make_unique<tools::Buffer>(specs.inputs[i], tools::Buffer::Against::back, std::byte{0x5a}));
    if (!specs.inputs[i].absent) memory.back()->store(inputs.at(i));
    in.push_back(memory.back()->data());
  }
  const std::size_t first_output = memory.size();
  for (const tools::TensorSpec& spec : specs.outputs) {
    memory.push_back(std::make_unique<tools::Buffer>(spec, tools::Buffer::Against::back, std::byte{0xc3}));
    out.push_back(memory.back()->data());
  }
  std::size_t bytes = 0;
  EXPECT_EQ(bp_operator_workspace_size(created.op.get(), &bytes), BP_OK);
  std::vector<std::max_align_t> workspace(bytes / sizeof(std::max_align_t) + 1);
  RunResult result;
  result.status =
      bp_operator_run(created.op.get(), in.data(), in.size(), out.data(), out.size(), workspace.data(), nullptr);
  if (result.status != BP_OK) result.error = bp_last_error();
  for (std::size_t i = first_output; i < memory.size(); ++i) result.outputs.push_back(memory[i]->load());
  return result;
}

// The common case: every input has type T, the first output is wanted.
template <class T>
std::vector<T> run(std::string_view line, const std::vector<std::vector<T>>& inputs) {
  const tools::Problem problem = tools::parse_problem(line);
  const tools::Tensors specs = tools::tensors(problem, dtype_of<T>());
  std::vector<tools::Dense> filled;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    filled.push_back(dense(specs.inputs.at(i).dtype, specs.inputs[i].sizes, inputs[i]));
    if (!specs.inputs[i].absent) {
      EXPECT_EQ(filled.back().bits.size(), static_cast<std::size_t>(tools::element_count(specs.inputs[i].sizes)))
          << line;
    }
  }
  filled.resize(specs.inputs.size());
  const RunResult result = run(problem, dtype_of<T>(), filled);
  EXPECT_EQ(result.status, BP_OK) << result.error;
  return result.outputs.empty() ? std::vector<T>{} : values<T>(result.outputs[0]);
}

// start, start + 1, ...
template <class T>
std::vector<T> count_from(T start, std::size_t count) {
  std::vector<T> result;
  for (std::size_t i = 0; i < count; ++i) result.push_back(static_cast<T>(start + static_cast<T>(i)));
  return result;
}

// The bits, so that NaN equals itself and -0 is not +0.
template <class T>
std::vector<std::uint64_t> bits(const std::vector<T>& v) {
  return dense(dtype_of<T>(), {}, v).bits;
}

}  // namespace support
