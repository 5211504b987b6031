// SPDX-License-Identifier: Apache-2.0
// One problem, one type, any implementation: the result against the brute-force oracle, bit for bit, in guarded memory.
#pragma once

#include "oracle/brute_force.h"
#include "problem.h"

#include <string>
#include <vector>

namespace tools {

// The inputs of one problem in one type and what must come out: made once, compared with any number of operators.
class ProblemCheck {
 public:
  ProblemCheck(const Problem& problem, std::int32_t dtype);
  // Runs an operator created for this problem on a kind of device; empty when all is well, else what is wrong.
  [[nodiscard]] std::string run(const bp_operator* op, std::int32_t device_kind) const;

 private:
  std::int32_t kind_;
  std::int64_t elements_;  // of the larger of x and y
  Tensors specs_;
  std::vector<Dense> values_;
  Expected expected_;
};

// The same for one operator.
std::string check_problem(const Problem& problem, std::int32_t dtype, const bp_operator* op,
                          std::int32_t device_kind = BP_DEVICE_CPU);

// Refuses a problem so large that the reference would be compared with itself.
void require_judge(const Problem& problem, std::string_view implementation);

// The types a problem is checked in, and the implementations there are.
std::vector<std::int32_t> dtypes_of(const Problem& problem, std::int32_t device_kind);
std::vector<std::string> implementations_of(std::int32_t kind, std::int32_t device_kind);

// A random problem as its line; the same number gives the same line. `kind` 0: any.
std::string random_problem(std::uint64_t number, std::int32_t kind);

}  // namespace tools
