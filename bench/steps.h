// SPDX-License-Identifier: Apache-2.0
// The steps that the operators' arithmetic is made of, each in a loop that does nothing else.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace bench {

enum class Step { gather, offer, search, search_keys, term, widen_f16, round_f16, widen_bf16, round_bf16 };
inline constexpr std::size_t kSteps = 9;

// What the loops read and write: all of it in the first cache.
struct StepData {
  static constexpr std::size_t kElements = 1024;
  static constexpr std::size_t kVisits = 64 * kElements;  // so that a call costs nothing beside them
  alignas(64) std::array<float, kElements> values;
  alignas(64) std::array<std::uint16_t, kElements> halves;
  alignas(64) std::array<std::uint16_t, kElements> rounded;
  alignas(64) std::array<std::uint8_t, kElements> winners;
  float sink;  // so that no result can be left out

  StepData();
};

// Visits the elements in turn, in vectors of the widest set, and returns how often an element's step was done: what was
// loaded serves several sums, as it does in the operators, and these do not wait for each other.
std::size_t run_step(Step step, StepData& data);

}  // namespace bench
